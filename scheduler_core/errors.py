"""Base classes of errors. Each type has fields; the commands and servers format them as text.

Expected outcomes (a pod that does not fit, a quota that is full) are values, not exceptions.
"""

from __future__ import annotations


class MusterError(Exception):
    """Base of every error that Muster raises on purpose."""


class ModelError(MusterError):
    """An API object that cannot be read: the object, the field and the problem.

    `path` is the field inside the object (`spec.min[cpu]`), `problem` the rule with the value.
    """

    def __init__(
        self, path: str, problem: str, *, kind: str = "", namespace: str = "", name: str = "", uid: str = ""
    ) -> None:
        self.path = path
        self.problem = problem
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.uid = uid
        super().__init__(path, problem, kind, namespace, name, uid)

    def within(self, kind: str, namespace: str, name: str, uid: str = "") -> ModelError:
        """The same error with the object's identity, for callers that know the metadata."""
        return type(self)(self.path, self.problem, kind=kind, namespace=namespace, name=name, uid=uid)

    def shortened(self, most: int = 1000) -> ModelError:
        """The same error with fewer characters of path and problem, which repeat what users write."""
        path, problem = (
            text if len(text) <= most else f"{text[:most]}..." for text in (self.path, self.problem)
        )
        return type(self)(
            path, problem, kind=self.kind, namespace=self.namespace, name=self.name, uid=self.uid
        )

    @property
    def subject(self) -> str:
        """`ElasticQuota team-a/quota`, or only the kind where the name is unknown."""
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place}".strip()

    def __str__(self) -> str:
        where = f"{self.subject}: " if self.subject else ""
        field = f"{self.path}: " if self.path else ""
        return f"{where}{field}{self.problem}"


class TooLarge(ModelError):
    """An object that is too large to be read in reasonable time."""


class ConfigError(MusterError):
    """A configuration or scenario file that cannot be used: the path of the field, and the rule it breaks.

    `kind` is the class of the error as in Kubernetes field errors (Invalid, Required, Duplicate, NotFound,
    Forbidden, NotSupported), empty when the text could not be decoded at all.
    """

    def __init__(self, path: str, problem: str, *, kind: str = "", file: str = "") -> None:
        self.path = path
        self.problem = problem
        self.kind = kind
        self.file = file
        super().__init__(path, problem, kind, file)

    def __str__(self) -> str:
        where = f"{self.file}: " if self.file else ""
        field = f"{self.path}: " if self.path else ""
        return f"{where}{field}{self.problem}"


class PluginError(MusterError):
    """An exception in a plugin: the plugin, the extension point, the pod, and the cause."""

    def __init__(self, plugin: str, point: str, pod: str, cause: BaseException) -> None:
        self.plugin = plugin
        self.point = point
        self.pod = pod
        self.cause = cause
        super().__init__(plugin, point, pod, cause)

    def __str__(self) -> str:
        return f"plugin {self.plugin} failed at {self.point} for pod {self.pod}: {self.cause!r}"
