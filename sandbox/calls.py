"""Who makes a request and how: what goes with a write besides its object."""

from __future__ import annotations

from dataclasses import dataclass, field

from sandbox import errors
from sandbox.admit import AdmissionRequest, Operation
from sandbox.duplicates import NONE, Duplicates
from sandbox.kinds import ApiKind
from sandbox.objects import Obj


@dataclass(slots=True)
class Call:
    """Who writes and how.

    `warnings` collects texts for the client; `field_validation` is Strict, Warn or Ignore. `duplicates` are
    the keys that the body names twice; `patch` is what a refusal shows of a patch, None for whole objects.
    """

    user: str = "system:sandbox"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")
    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Ignore"
    force: bool = False
    warnings: list[str] = field(default_factory=list)
    duplicates: Duplicates = NONE
    patch: str | None = None


def report_unknown(kind: ApiKind, paths: list[str], call: Call) -> None:
    """Refuse or warn of unknown and duplicate fields, as the request's fieldValidation says.

    Raises BadRequest, for a patch Invalid.
    """
    if call.field_validation == "Ignore" or not (paths or call.duplicates.texts):
        return
    unknown = [f'unknown field "{path}"' for path in paths]
    read_once = call.patch is None and not kind.custom
    duplicates = call.duplicates.outside(paths) if read_once else call.duplicates
    if read_once and duplicates.order:
        found = problems = duplicates.among(paths)
    else:
        found, problems = [*duplicates.texts, *unknown], [duplicates.summary, *unknown]
    if call.field_validation == "Warn":
        call.warnings += found
        return
    problem = f"strict decoding error: {', '.join(filter(None, problems))}"
    if call.patch is None:
        what = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise errors.bad_request(f"{what}: {problem}")
    raise errors.invalid_patch(call.patch, problem)


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
