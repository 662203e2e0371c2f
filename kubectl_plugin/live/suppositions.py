"""What a question supposes of a live cluster, as options of a command line say it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from kubectl_plugin.live.manifests import put_manifests
from kubectl_plugin.live.references import kind_of, reference
from scheduler_core.answers.draft import Draft
from scheduler_core.answers.owners import scale
from scheduler_core.answers.suppositions import (
    add_nodes,
    check_bounds_of,
    check_hard_of,
    delete,
    drain,
    note_sum_of_min,
    put_bound,
    put_hard,
)
from scheduler_core.errors import ConfigError


def suppose(draft: Draft, namespace: str, options: Sequence[tuple[str, Any]]) -> None:
    """Add the changes of options to a draft, in their order. Raises ConfigError, CommandFailed, UsageError.

    Bounds are checked at the end, as several may be legal only together.
    """
    checks: list[Callable[[], None]] = []
    like = next((str(text) for name, text in options if name == "like"), "")
    for name, text in options:
        match name:
            case "files":
                put_manifests(draft, [text], namespace)
            case "bounds":
                checks.append(set_bound(draft, namespace, text))
            case "add_nodes":
                add_nodes(draft, int(text), like)
            case "drain":
                drain(draft, text)
            case "gone":
                delete(draft, *_placed("--delete", text, namespace))
            case "scale":
                owner, equals, count = text.rpartition("=")
                if not equals or not count.isdigit():
                    raise click.UsageError(f"--scale {text}: must have the form KIND/NAME=NUMBER.")
                scale(draft, *_placed("--scale", owner, namespace), int(count))
    for check in checks:
        check()
    note_sum_of_min(draft)


def _placed(option: str, text: str, namespace: str) -> tuple[str, str, str]:
    """Kind, namespace and name of `KIND/NAME` or `KIND/NAMESPACE/NAME`."""
    parts = text.split("/")
    if len(parts) not in (2, 3):
        raise click.UsageError(f"{option} {text}: must have the form KIND/NAME or KIND/NAMESPACE/NAME.")
    kind, name = reference([f"{parts[0]}/{parts[-1]}"])
    place = parts[1] if len(parts) == 3 else namespace
    return kind, "" if kind == "Node" else place, name


def set_bound(draft: Draft, namespace: str, text: str) -> Callable[[], None]:
    """Apply `quota/NAMESPACE:max.RESOURCE=AMOUNT` or `resourcequota/NAME:hard.RESOURCE=AMOUNT`.

    Returns the check of the changed object.
    """
    place, equals, amount = text.partition("=")
    owner, _, field = place.partition(":")
    word, *names = owner.split("/")
    bound, _, resource = field.partition(".")
    if not (equals and names and all(names) and len(names) < 3 and bound and resource and amount):
        raise click.UsageError(f"--set {text}: must have the form quota/NAMESPACE:max.RESOURCE=AMOUNT.")
    kind = kind_of(word)
    if kind == "ElasticQuota":
        where = _quota_namespace(draft, namespace, names)
        path = put_bound(draft, where, bound, resource, amount)
        return lambda: check_bounds_of(draft, where, path)
    if kind == "ResourceQuota" and bound == "hard":
        where, name = names if len(names) == 2 else (namespace, names[0])
        path = put_hard(draft, where, name, resource, amount)
        return lambda: check_hard_of(draft, where, name, path)
    raise click.UsageError(
        f"--set {text}: sets max or min of quota/NAMESPACE, or hard of resourcequota/NAME."
    )


def _quota_namespace(draft: Draft, namespace: str, names: list[str]) -> str:
    """The namespace of the quota that a reference names: its namespace, or its name in `namespace`."""
    where = names[0]
    if len(names) == 1 and draft.quota_of(where) is None and _is_named(draft, namespace, where):
        return namespace
    if len(names) == 2 and not _is_named(draft, where, names[1]):
        raise ConfigError(f"quota/{where}/{names[1]}", "no quota of this name binds in this namespace")
    return where


def _is_named(draft: Draft, namespace: str, name: str) -> bool:
    obj = draft.quota_of(namespace)
    return obj is not None and bool(obj["metadata"]["name"] == name)
