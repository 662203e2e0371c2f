"""Who may send reviews to the webhook: whether its arguments or a NetworkPolicy exclude anybody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from scheduler_core.answers.doctor.findings import HealthFinding
from scheduler_core.decoding import convert
from scheduler_core.errors import ModelError
from scheduler_core.model.selectors import LabelSelectorWire, parse_selector

REVIEW_PORT: Final = 9443
_CLIENT_CA: Final = "--client-ca"
_ANYBODY: Final = frozenset({"0.0.0.0/0", "::/0"})

Manifest = Mapping[str, Any]


def check_callers(deployment: Manifest, policies: Sequence[Manifest]) -> list[HealthFinding]:
    """A note if everybody who reaches the webhook's port is answered, and no policy restricts who reaches it.

    `policies` are the NetworkPolicies of the Deployment's namespace.
    """
    template = (deployment.get("spec") or {}).get("template") or {}
    containers = (template.get("spec") or {}).get("containers") or ()
    if any(_is_flag(argument) for container in containers for argument in _arguments(container)):
        return []
    labels = (template.get("metadata") or {}).get("labels") or {}
    names = {
        port.get("name")
        for container in containers
        for port in container.get("ports") or ()
        if port.get("containerPort") == REVIEW_PORT
    }
    if is_restricted(labels, names, policies):
        return []
    meta = deployment.get("metadata") or {}
    return [
        HealthFinding(
            "note",
            f"Deployment {meta.get('namespace', '')}/{meta.get('name', '')}",
            f"every client that reaches port {REVIEW_PORT} is answered, and no NetworkPolicy says which may: "
            "forged reviews can hold quota for seconds",
            "set webhook.clientCA or networkPolicy.apiServerCIDRs",
        )
    ]


def _arguments(container: Manifest) -> Iterator[str]:
    for field in ("command", "args"):
        yield from map(str, container.get(field) or ())


def _is_flag(argument: str) -> bool:
    return argument.partition("=")[0] == _CLIENT_CA


def is_restricted(labels: Mapping[str, str], names: set[str | None], policies: Sequence[Manifest]) -> bool:
    """Whether policies select pods with these labels, and none of them lets everybody to the port of reviews.

    `names` are the names of that port. What several policies allow adds up.
    """
    selecting = [spec for policy in policies if _selects(spec := policy.get("spec") or {}, labels)]
    rules = [rule for spec in selecting for rule in spec.get("ingress") or ()]
    return bool(selecting) and not any(_is_open(rule, names) for rule in rules)


def _selects(spec: Manifest, labels: Mapping[str, str]) -> bool:
    if "Ingress" not in (spec.get("policyTypes") or ("Ingress",)):
        return False
    try:
        wire = convert(spec.get("podSelector") or {}, LabelSelectorWire)
        return parse_selector(wire, "spec.podSelector").matches(labels)
    except (ModelError, msgspec.ValidationError):
        return False


def _is_open(rule: Manifest, names: set[str | None]) -> bool:
    """Whether a rule lets everybody to the port of reviews."""
    peers, ports = rule.get("from") or (), rule.get("ports") or ()
    anybody = not peers or any((peer.get("ipBlock") or {}).get("cidr") in _ANYBODY for peer in peers)
    return anybody and (not ports or any(_covers(port, names) for port in ports))


def _covers(port: Manifest, names: set[str | None]) -> bool:
    first = port.get("port")
    if isinstance(first, int):
        return first <= REVIEW_PORT <= (port.get("endPort") or first)
    return first is None or first in names
