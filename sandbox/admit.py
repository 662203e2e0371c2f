"""What the registry asks of admission: one request value, and the chain that may change or refuse it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from sandbox.kinds import ApiKind

Obj = dict[str, Any]
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class AdmissionRequest:
    """One write on its way to the store.

    `kind` is the kind of the resource in the URL (Pod for `pods/binding`), while `obj` is the body: for a
    subresource with its own body its `kind` is that of the body (Binding, Eviction, Scale). `obj` is None for
    DELETE, `old` is None for CREATE. The objects are the registry's own: `mutate` may change `obj` in place
    and return it, nobody may change `old`. `options` are the CreateOptions, UpdateOptions or DeleteOptions.
    """

    operation: Operation
    kind: ApiKind
    namespace: str
    name: str
    obj: Obj | None
    old: Obj | None
    subresource: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    dry_run: bool = False
    options: Obj = field(default_factory=dict)


class AdmissionChain(Protocol):
    """Admission as the registry sees it. Every method may raise StatusError to refuse the request."""

    async def mutate(self, req: AdmissionRequest) -> tuple[Obj | None, list[str]]:
        """The object to go on with, and warnings for the client. Runs after defaulting, before validation."""
        ...

    async def validate(self, req: AdmissionRequest) -> list[str]:
        """Warnings. Runs last before the store; it may charge a quota."""
        ...

    async def release(self, req: AdmissionRequest) -> None:
        """Undo what `validate` charged: the write failed after it."""
        ...


class OpenAdmission:
    """Lets everything pass unchanged."""

    async def mutate(self, req: AdmissionRequest) -> tuple[Obj | None, list[str]]:
        """The object as it is."""
        return req.obj, []

    async def validate(self, req: AdmissionRequest) -> list[str]:
        """No objection."""
        return []

    async def release(self, req: AdmissionRequest) -> None:
        """Nothing was charged."""
