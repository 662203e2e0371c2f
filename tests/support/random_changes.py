"""Random changes of a random cluster, as people suppose them of a live one."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from scheduler_core.answers.draft import Draft
from scheduler_core.answers.suppositions import add_nodes, delete, drain, set_bound, waiting_twin
from scheduler_core.errors import ConfigError
from scheduler_core.model.quantity import format_resource
from tests.support.worlds.objects import Raw


def suppose_something(draft: Draft, dice: random.Random) -> None:
    """Add one to three random changes that are legal in the cluster of a draft."""
    wanted = dice.choice((1, 1, 1, 2, 3))
    for _ in range(20):
        before = len(draft.changes().texts)
        try:
            dice.choice(_CHANGES)(draft, dice)
        except ConfigError:
            continue  # an illegal bound, or an object that an earlier change has deleted
        wanted -= len(draft.changes().texts) - before
        if wanted <= 0:
            return


def _some(draft: Draft, kind: str, dice: random.Random) -> Raw:
    found = draft.all(kind)
    if not found:
        raise ConfigError(kind, "there is none")
    return dice.choice(found)


def _bound(draft: Draft, dice: random.Random) -> None:
    namespace = _some(draft, "ElasticQuota", dice)["metadata"]["namespace"]
    quota = draft.base.state.ledger.quota_of(namespace)
    if quota is None:
        return
    bound = dice.choice(("min", "max"))
    bounds = quota.min if bound == "min" else quota.max
    name = dice.choice(sorted(bounds) or ["cpu"])
    unit = 1000 if name == "cpu" else 1
    amount = max(0, bounds.get(name, 0) + dice.choice((-2, -1, 1, 1, 2, 4, 8)) * unit)
    set_bound(draft, namespace, bound, name, format_resource(name, amount))


def _nodes(draft: Draft, dice: random.Random) -> None:
    add_nodes(draft, dice.choice((1, 1, 2)), _some(draft, "Node", dice)["metadata"]["name"])


def _drained(draft: Draft, dice: random.Random) -> None:
    drain(draft, _some(draft, "Node", dice)["metadata"]["name"])


def _deleted(draft: Draft, dice: random.Random) -> None:
    kind = dice.choice(("Pod", "Pod", "Pod", "Node", "ElasticQuota"))
    meta = _some(draft, kind, dice)["metadata"]
    delete(draft, kind, meta.get("namespace", ""), meta["name"])


def _more_pods(draft: Draft, dice: random.Random) -> None:
    """One pod or more of a Job that is like a pod of the cluster."""
    model = _some(draft, "Pod", dice)
    name = model["metadata"]["name"]
    count = dice.choice((1, 1, 2, 3))
    for number in range(1, count + 1):
        draft.put(waiting_twin(model, f"{name}-more-{number}"))
    draft.tell(f"{count} more pods like {name}")


def _fewer_pods(draft: Draft, dice: random.Random) -> None:
    for _ in range(dice.choice((2, 3))):
        meta = _some(draft, "Pod", dice)["metadata"]
        delete(draft, "Pod", meta["namespace"], meta["name"])


_CHANGES: Final[tuple[Callable[[Draft, random.Random], None], ...]] = (
    _bound,
    _bound,
    _nodes,
    _drained,
    _deleted,
    _deleted,
    _more_pods,
    _more_pods,
    _fewer_pods,
)
