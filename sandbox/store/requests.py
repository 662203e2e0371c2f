"""Write requests: caller and options, admission attributes, and the interface of the admission chain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from sandbox import errors
from sandbox.access.identity import SANDBOX, Identity
from sandbox.api.duplicate_fields import NONE, Duplicates
from sandbox.kinds.api_kinds import ApiKind
from sandbox.objects import Obj

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class RequestContext:
    """Caller, options and collected warnings of one write request.

    `warnings` are sent to the client; `field_validation` is Strict, Warn or Ignore. `duplicates` are the
    duplicate keys of the body; `patch` is the text of a patch for error messages, None for whole objects.
    """

    caller: Identity = SANDBOX
    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Ignore"
    force: bool = False
    warnings: list[str] = field(default_factory=list)
    duplicates: Duplicates = NONE
    patch: str | None = None


@dataclass(slots=True)
class AdmissionRequest:
    """Attributes of one write request for admission.

    `kind` is the kind of the resource in the URL (Pod for `pods/binding`) and `obj` the body of the request,
    which is a Binding, Eviction or Scale for subresources with a body of their own. `obj` is None for DELETE,
    `old` is None for CREATE. Plugins may change `obj` in place but not `old`. `options` are the
    CreateOptions, UpdateOptions or DeleteOptions.
    """

    operation: Operation
    kind: ApiKind
    namespace: str
    name: str
    obj: Obj | None
    old: Obj | None
    context: RequestContext = field(default_factory=RequestContext)
    subresource: str = ""
    options: Obj = field(default_factory=dict)


class AdmissionChain(Protocol):
    """Admission interface of the registry. Every method may raise StatusError to refuse the request."""

    async def mutate(self, req: AdmissionRequest) -> tuple[Obj | None, list[str]]:
        """The object after mutating admission, and warnings. Runs after defaulting and before validation."""

    async def validate(self, req: AdmissionRequest) -> list[str]:
        """Warnings of validating admission. Runs directly before storage and must not charge a quota: the
        write may still fail.
        """


class OpenAdmission:
    """Admission chain without plugins: allows all requests unchanged."""

    async def mutate(self, req: AdmissionRequest) -> tuple[Obj | None, list[str]]:
        """The unchanged object."""
        return req.obj, []

    async def validate(self, req: AdmissionRequest) -> list[str]:
        """No warnings."""
        return []


def report_unknown(kind: ApiKind, paths: list[str], context: RequestContext) -> None:
    """Refuse unknown and duplicate fields, or add warnings, according to the request's fieldValidation.

    Raises BadRequest, or Invalid for a patch.
    """
    if context.field_validation == "Ignore" or not (paths or context.duplicates.texts):
        return
    unknown = [f'unknown field "{path}"' for path in paths]
    read_once = context.patch is None and not kind.custom
    duplicates = context.duplicates.outside(paths) if read_once else context.duplicates
    if read_once and duplicates.order:
        found = problems = duplicates.among(paths)
    else:
        found, problems = [*duplicates.texts, *unknown], [duplicates.summary, *unknown]
    if context.field_validation == "Warn":
        context.warnings += found
        return
    problem = f"strict decoding error: {', '.join(filter(None, problems))}"
    if context.patch is None:
        what = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise errors.bad_request(f"{what}: {problem}")
    raise errors.invalid_patch(context.patch, problem)
