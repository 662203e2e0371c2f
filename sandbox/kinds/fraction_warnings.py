"""Warnings of an API server for fractions of bytes: somebody wrote `100m` of memory and meant `100M`.

Follows Kubernetes' pkg/api/pod/warnings.go and pkg/api/persistentvolumeclaim/util.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sandbox.kinds.api_kinds import ApiKind
from sandbox.objects import Obj, at
from scheduler_core.errors import ModelError
from scheduler_core.model.quantity import is_whole

_BYTES: Final = ("memory", "ephemeral-storage")
_LISTS: Final = ("limits", "requests")
# Where a kind has the spec of pods.
_POD_SPECS: Final = {
    "Pod": ("spec",),
    "PodTemplate": ("template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
_TEMPLATE: Final = ("spec", "template", "spec")


def fraction_warnings(kind: ApiKind, obj: Obj) -> list[str]:
    """A warning for each fraction of a byte that the pods of an object, or a claim for a volume, ask for."""
    if kind.custom:
        return []
    if kind.kind == "PersistentVolumeClaim":
        amounts = at(obj, "spec", "resources")
        return list(_of_resources(amounts, "spec.resources", ("storage",), ("requests", "limits")))
    path = _POD_SPECS.get(kind.kind, _TEMPLATE)
    spec = at(obj, *path)
    return list(_of_pods(spec, ".".join(path))) if isinstance(spec, dict) else []


def _of_pods(spec: Obj, path: str) -> Iterator[str]:
    yield from _fractions(spec.get("overhead"), f"{path}.overhead", _BYTES)
    for key in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(key) or ()):
            amounts = container.get("resources") if isinstance(container, dict) else None
            yield from _of_resources(amounts, f"{path}.{key}[{index}].resources", _BYTES, _LISTS)


def _of_resources(resources: Any, path: str, names: tuple[str, ...], lists: tuple[str, ...]) -> Iterator[str]:
    amounts = resources if isinstance(resources, dict) else {}
    for key in lists:
        yield from _fractions(amounts.get(key), f"{path}.{key}", names)


def _fractions(amounts: Any, path: str, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        value = amounts.get(name) if isinstance(amounts, dict) else None
        if value is not None and _is_fraction(value):
            yield f'{path}[{name}]: fractional byte value "{value}" is invalid, must be an integer'


def _is_fraction(value: object) -> bool:
    try:
        return not is_whole(value)
    except ModelError:
        return False
