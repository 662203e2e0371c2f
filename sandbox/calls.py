"""Who makes a request and how: what goes with a write besides its object."""

from __future__ import annotations

from dataclasses import dataclass, field

from sandbox import errors
from sandbox.admit import AdmissionRequest, Operation
from sandbox.kinds import ApiKind
from sandbox.objects import Obj


@dataclass(slots=True)
class Call:
    """Who writes and how.

    `warnings` collects texts for the client; `field_validation` is Strict, Warn or Ignore.
    """

    user: str = "system:sandbox"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")
    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Ignore"
    force: bool = False
    warnings: list[str] = field(default_factory=list)


def report_unknown(kind: ApiKind, paths: list[str], call: Call) -> None:
    """Refuse or warn of unknown fields, as the request's fieldValidation says. Raises BadRequest."""
    texts = [f'unknown field "{path}"' for path in paths]
    if texts and call.field_validation == "Strict":
        raise errors.bad_request(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: strict decoding '
            f"error: {', '.join(texts)}"
        )
    if call.field_validation == "Warn":
        call.warnings += texts


def admission_request(
    operation: Operation,
    kind: ApiKind,
    namespace: str,
    name: str,
    obj: Obj | None,
    old: Obj | None,
    call: Call,
    subresource: str = "",
    options: Obj | None = None,
) -> AdmissionRequest:
    """The request that admission judges."""
    return AdmissionRequest(
        operation,
        kind,
        namespace,
        name,
        obj,
        old,
        subresource,
        call.user,
        call.groups,
        call.dry_run,
        options or {},
    )
