"""Objects of the demo's cluster, through the official Python client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kubernetes import config
from kubernetes.client import ApiException
from kubernetes.dynamic import DynamicClient

from sandbox.objects import Obj
from scheduler_core.errors import MusterError

_MANAGER: Final = "muster-sandbox"
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_MERGE: Final = "application/merge-patch+json"


class RequestRefused(MusterError):
    """The API server refused a request; `reason` and `message` are those of its Status."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        self.message = message
        super().__init__(reason, message)

    def __str__(self) -> str:
        return f"Error from server ({self.reason}): {self.message}"


class ApiObjects:
    """Reads and writes objects as JSON. All methods raise RequestRefused.

    A kind is given as its plural, singular or short name, in any case.
    """

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        """`folder` is a directory for the client's cache of discovery."""
        connect: Any = config.new_client_from_config
        api = connect(config_file=str(kubeconfig), persist_config=False)
        client: Any = DynamicClient
        self._client = client(api, cache_file=str(folder / "client-discovery.json"))
        self._by_name: dict[str, Any] = {}

    # Kinds

    def kind(self, name: str) -> Any:
        """The served resource with this name; several groups may have it, the core group goes first."""
        if not self._by_name:
            found = [item for item in self._client.resources.search() if hasattr(item, "singular_name")]
            for item in sorted(found, key=lambda item: (item.group or "", not item.preferred)):
                names = (item.name, item.singular_name, item.kind.lower(), *(item.short_names or ()))
                for name_ in names:
                    self._by_name.setdefault(name_, item)
        if name.lower() not in self._by_name:
            raise RequestRefused("NotFound", f'the server doesn\'t have a resource type "{name}"')
        return self._by_name[name.lower()]

    def title(self, kind: str, name: str) -> str:
        """Kind and name as kubectl prints them, such as `deployment.apps/nginx`."""
        return _title(self.kind(kind), name)

    def _of(self, document: Obj) -> Any:
        return self._client.resources.get(api_version=document["apiVersion"], kind=document["kind"])

    # Reading

    def get(self, kind: str, name: str, namespace: str) -> Obj | None:
        """The object; None if it does not exist."""
        try:
            return self._request("get", _path(self.kind(kind), namespace, name))
        except RequestRefused as refusal:
            if refusal.reason == "NotFound":
                return None
            raise

    def list(self, kind: str, namespace: str | None = None, **selectors: str) -> list[Obj]:
        """Objects of a namespace, or of all; `selectors` are label_selector and field_selector."""
        items: list[Obj] = self._request("get", _path(self.kind(kind), namespace), **selectors)["items"]
        return items

    def table(self, kind: str, namespace: str | None, name: str = "", **selectors: str) -> Obj:
        """Objects in columns, as the server prints them."""
        path = _path(self.kind(kind), namespace, name)
        return self._request("get", path, header_params={"Accept": _TABLE}, **selectors)

    # Writing

    def apply(self, document: Obj) -> tuple[str, bool]:
        """Server-side apply; returns the title of the object, and whether it is new."""
        kind = self._of(document)
        namespace, name = _place(document)
        new = self.get(kind.name, name, namespace) is None
        path = _path(kind, namespace, name)
        self._request(
            "patch",
            path,
            body=document,
            content_type="application/apply-patch+yaml",
            field_manager=_MANAGER,
            force_conflicts=True,
        )
        return _title(kind, name), new

    def replace(self, document: Obj) -> str:
        """Replace an object, whatever its present version is; returns its title."""
        kind = self._of(document)
        namespace, name = _place(document)
        path = _path(kind, namespace, name)
        version = self._request("get", path)["metadata"]["resourceVersion"]
        meta = {**document["metadata"], "resourceVersion": version}
        self._request("put", path, body={**document, "metadata": meta})
        return _title(kind, name)

    def merge(self, kind: str, name: str, patch: Obj) -> None:
        """Merge a patch into an object that has no namespace."""
        self._request("patch", _path(self.kind(kind), None, name), body=patch, content_type=_MERGE)

    def delete(self, kind: str, name: str, namespace: str) -> None:
        """Delete an object; its dependents are deleted in the background."""
        path = _path(self.kind(kind), namespace, name)
        self._request("delete", path, propagation_policy="Background")

    def scheduler_of_new_pods(self, namespace: str, annotations: Mapping[str, str]) -> str:
        """The scheduler's name that admission sets on a new pod; no pod is created."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "probe", "namespace": namespace, "annotations": dict(annotations)},
            "spec": {"containers": [{"name": "main", "image": "busybox"}]},
        }
        created = self._request("post", _path(self.kind("pods"), namespace), body=pod, dry_run="All")
        return str(created["spec"].get("schedulerName", ""))

    def _request(self, method: str, path: str, **parameters: Any) -> Any:
        try:
            answer = self._client.request(method, path, serialize=False, query_params=[], **parameters)
        except ApiException as error:
            raise _refusal(error) from None
        return json.loads(answer.data)


def _place(document: Obj) -> tuple[str, str]:
    meta = document["metadata"]
    return meta.get("namespace", "default"), meta["name"]


def _path(kind: Any, namespace: str | None, name: str = "") -> str:
    if not kind.namespaced or namespace is None:
        return str(kind.path(name=name or None))
    return str(kind.path(name=name or None, namespace=namespace))


def _title(kind: Any, name: str) -> str:
    group = f".{kind.group}" if kind.group else ""
    return f"{kind.kind.lower()}{group}/{name}"


def _refusal(error: ApiException) -> RequestRefused:
    """The Status in the body of an answer; other answers only have the status line of HTTP."""
    try:
        status = json.loads(error.body or "")
        return RequestRefused(status["reason"], status["message"])
    except (ValueError, KeyError, TypeError):
        return RequestRefused(str(error.status), str(error.reason))
