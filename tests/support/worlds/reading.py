"""A slow reading of a cluster's raw objects: who is where, who asks for what, what quotas allow.

Shares no code with the engine. Amounts are the simple forms that worlds are made of: plain numbers, `m` for
thousandths of cpu, `Gi` and `Mi` of memory.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from tests.support.oracles.nodes import affinity_reasons, taint_reasons
from tests.support.worlds.endings import going, is_heard, leaves, may_be_hurried
from tests.support.worlds.objects import SCHEDULER

Raw = dict[str, Any]
Sums = dict[str, int]

# How the scheduler names groups: of two groups of one age the first name goes first.
_KIND_NAMES: Final = {"incubator": "PodGroup", "config": "ConfigMap"}

_GROUP_KEYS: Final = (
    ("labels", "scheduling.x-k8s.io/pod-group", "x"),
    ("labels", "sakkara.group.name", "config"),
)


def amount(name: str, text: Any) -> int:
    """CPU in thousandths, everything else in whole units."""
    text = str(text)
    for ending, factor in (("Gi", 2**30), ("Mi", 2**20)):
        if text.endswith(ending):
            return int(text.removesuffix(ending)) * factor
    if name == "cpu":
        return int(text.removesuffix("m")) if text.endswith("m") else int(text) * 1000
    return int(text)


def amounts(listed: Mapping[str, Any] | None) -> Sums:
    return {name: amount(name, text) for name, text in (listed or {}).items()}


def add(total: Sums, more: Mapping[str, int], sign: int = 1) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + sign * value


def key(obj: Raw) -> str:
    own = obj["metadata"]
    return f"{own['namespace']}/{own['name']}" if own.get("namespace") else str(own["name"])


def namespace(obj: Raw) -> str:
    return str(obj["metadata"]["namespace"])


def labels(obj: Raw) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def priority(pod: Raw) -> int:
    return int(pod["spec"].get("priority") or 0)


def node_of(pod: Raw) -> str:
    return str(pod["spec"].get("nodeName") or "")


def finished(pod: Raw) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def gated(pod: Raw) -> bool:
    return bool(pod["spec"].get("schedulingGates"))


def charged(pod: Raw) -> bool:
    """Whether the pod counts without a node: another scheduler may bind it, and admission has charged it."""
    mark = (pod["metadata"].get("annotations") or {}).get("muster.dev/charged")
    return mark == "true" and pod["spec"].get("schedulerName") != SCHEDULER


def nominated(pod: Raw) -> str:
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")


def requests(pod: Raw) -> Sums:
    """What the containers ask for together, or the largest init container, and the overhead."""
    total: Sums = {}
    for container in pod["spec"]["containers"]:
        add(total, amounts((container.get("resources") or {}).get("requests")))
    for container in pod["spec"].get("initContainers") or ():
        for name, value in amounts((container.get("resources") or {}).get("requests")).items():
            total[name] = max(total.get(name, 0), value)
    add(total, amounts(pod["spec"].get("overhead")))
    return total


def cost(pod: Raw) -> Sums:
    """What a pod takes of a node and a quota: its requests, and one of `pods`."""
    return {**requests(pod), "pods": 1}


def group_of(pod: Raw) -> tuple[str, str] | None:
    """(dialect, name) of the group that a pod names, in the order of the dialects."""
    own = pod["metadata"]
    name = (own.get("annotations") or {}).get("scheduling.k8s.io/group-name")
    if name:
        return "incubator", name
    native = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    if native:
        return "native", native
    for field, label, dialect in _GROUP_KEYS:
        if (own.get(field) or {}).get(label):
            return dialect, own[field][label]
    return None


def group_key(pod: Raw) -> str:
    """Names a pod's group over all namespaces and dialects; empty for none."""
    found = group_of(pod)
    return f"{namespace(pod)}/{found[1]} {found[0]}" if found else ""


class Group:
    """What the raw object of a group says. `where` is set where topology decides.

    `priority` is its own among groups on the topology, None where that of the pods counts.
    """

    def __init__(self, obj: Raw) -> None:
        spec, own = obj.get("spec") or {}, obj["metadata"]
        self.obj = obj
        self.name = own["name"]
        self.where = (own.get("annotations") or {}).get("muster.dev/topology-constraints", "")
        self.priority: int | None = None
        version = obj["apiVersion"]
        if obj["kind"] == "ConfigMap":
            self.priority = int(obj["data"]["priority"]) if obj["data"].get("priority") else None
            self.dialect, self.minimum = "config", int(obj["data"]["size"])
            self.where = obj["data"].get("constraints") or "pack"
        elif version.startswith("incubator"):
            self.dialect, self.minimum = "incubator", int(spec.get("minMembers", 1))
        elif version.startswith("scheduling.x-k8s.io"):
            self.dialect, self.minimum = "x", int(spec.get("minMember", 1))
        else:
            policy = (spec.get("schedulingPolicy") or {}).get("gang") or {}
            self.dialect, self.minimum = "native", int(policy.get("minCount", 1))
            topology = (spec.get("schedulingConstraints") or {}).get("topology") or ()
            self.where = topology[0]["key"] if topology else ""
        self.key = f"{own['namespace']}/{self.name} {self.dialect}"


class HeldQuota(NamedTuple):
    """What a waiting group holds of the quota of its namespace, and its place in the queue."""

    group: str
    namespace: str
    place: tuple[int, str, str]
    amounts: Sums


class View:
    """A cluster as its raw objects tell it, at one moment (seconds since the epoch).

    `holders` have a node and are not finished; `waiting` have none and could get one (gated ones included);
    `charged` have none and count in their quota all the same. `holds` is what groups hold of their quotas.
    """

    def __init__(self, objects: Iterable[Raw], now: float) -> None:
        self.now = now
        self.nodes: dict[str, Raw] = {}
        self.pods: list[Raw] = []
        self.groups: dict[str, Group] = {}
        self.claims: dict[str, Raw] = {}
        self.volumes: dict[str, Raw] = {}
        self.classes: set[str] = set()
        self.budgets: list[Raw] = []
        self.quotas: dict[str, Raw] = {}
        self.holds: list[HeldQuota] = []
        for obj in objects:
            self._sort_in(obj)
        self.split()
        self.low = {ns: amounts(quota["spec"].get("min")) for ns, quota in self.quotas.items()}
        self.high = {ns: amounts(quota["spec"].get("max")) for ns, quota in self.quotas.items()}

    def _sort_in(self, obj: Raw) -> None:
        match obj["kind"]:
            case "Pod":
                self.pods.append(obj)
            case "Node":
                self.nodes[obj["metadata"]["name"]] = obj
            case "ElasticQuota":
                old = self.quotas.get(namespace(obj))
                if old is None or _age(obj) < _age(old):
                    self.quotas[namespace(obj)] = obj
            case "PodGroup":
                found = Group(obj)
                self.groups[found.key] = found
            case "ConfigMap":
                if "sakkara.group" in labels(obj):
                    found = Group(obj)
                    self.groups[found.key] = found
            case "PersistentVolumeClaim":
                self.claims[key(obj)] = obj
            case "PersistentVolume":
                self.volumes[obj["metadata"]["name"]] = obj
            case "StorageClass":
                self.classes.add(obj["metadata"]["name"])
            case "PodDisruptionBudget":
                self.budgets.append(obj)

    def split(self) -> None:
        """Sort `pods` anew into those that hold room, that wait, and that are charged."""
        # What was asked of the others is forgotten: a view that was copied has other pods.
        self._stay: View | None = None
        self._used: dict[tuple[str, bool], Sums] = {}
        self._members: dict[str, list[Raw]] | None = None
        self._nominated: dict[bool, list[Raw]] = {}
        self.closed_go = False
        alive = [pod for pod in self.pods if not finished(pod)]
        self.holders = [pod for pod in alive if node_of(pod)]
        self.waiting = [pod for pod in alive if not node_of(pod) and not going(pod)]
        self.charged = [pod for pod in alive if not node_of(pod) and charged(pod)]

    def without(self, gone: Collection[str]) -> View:
        """The cluster without some pods (keys)."""
        other = object.__new__(View)
        other.__dict__.update(self.__dict__)
        other.pods = [pod for pod in self.pods if key(pod) not in gone]
        other.split()
        return other

    def placed(self, pod: Raw, node: str) -> View:
        """The cluster with a waiting pod on a node."""
        other = self.without({key(pod)})
        there = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        other.pods.append(there)
        other.holders.append(there)
        other.charged = [item for item in other.charged if key(item) != key(pod)]
        return other

    def leaves(self, pod: Raw) -> bool:
        """Whether a pod that holds a node is on its way out, soon enough for others to wait for it."""
        return leaves(pod, self.nodes.get(node_of(pod)), self.now)

    def evictable(self, pod: Raw) -> bool:
        """Whether an eviction changes anything for a pod that holds a node; on a lost node it does not."""
        node = self.nodes.get(node_of(pod))
        return may_be_hurried(pod, node, self.now) if going(pod) else is_heard(node)

    def leaving(self) -> set[str]:
        """Pods (keys) that hold a node and are on their way out."""
        return {key(pod) for pod in self.holders if self.leaves(pod)}

    def stay(self) -> View:
        """The cluster without those."""
        if self._stay is None:
            self._stay = self.without(self.leaving())
        return self._stay

    def on(self, node: str) -> list[Raw]:
        return [pod for pod in self.holders if node_of(pod) == node]

    def get(self, pod_key: str) -> Raw | None:
        return next((pod for pod in self.pods if key(pod) == pod_key), None)

    def members(self, group: str) -> list[Raw]:
        if self._members is None:
            self._members = {}
            for pod in self.pods:
                self._members.setdefault(group_key(pod), []).append(pod)
        return self._members.get(group, [])

    # Quotas

    def used(self, ns: str, *, reached: bool = False) -> Sums:
        """What pods use that count; `reached`: only those that an eviction or their own end gives back."""
        found = self._used.get((ns, reached))
        if found is None:
            found = self._used[ns, reached] = {}
            for pod in self.holders if reached else (*self.holders, *self.charged):
                if namespace(pod) == ns and not (reached and self.stranded(pod)):
                    add(found, cost(pod))
        return dict(found)

    def stranded(self, pod: Raw) -> bool:
        """Whether the node of a pod is lost, so that nobody ends it."""
        return not (is_heard(self.nodes.get(node_of(pod))) or self.leaves(pod))

    def used_by_all(self, *, guaranteed: bool) -> Sums:
        """What all quotas use, none more than its max: what passed by the rules is its own affair.

        For a pod within its min (`guaranteed`) pods without a node, or with a lost one, hold what their
        quota is guaranteed.
        """
        total: Sums = {}
        for ns in self.quotas:
            runs = self.used(ns, reached=True)
            for name, value in self.used(ns).items():
                if guaranteed:
                    value = max(runs.get(name, 0), min(value, self.low[ns].get(name, 0)))
                add(total, {name: min(value, self.high[ns].get(name, value))})
        return total

    def above_max(self, asked: Mapping[str, int]) -> set[str]:
        """Quotas (namespaces) that use more than their max of something that is asked for."""
        stay = self.stay()
        found = set()
        for ns, high in self.high.items():
            used = stay.used(ns)
            if any(
                value and used.get(name, 0) > high.get(name, used.get(name, 0))
                for name, value in asked.items()
            ):
                found.add(ns)
        return found

    def sum_of_min(self) -> Sums:
        total: Sums = {}
        for low in self.low.values():
            add(total, low)
        return total

    def relevant(self, ns: str) -> set[str]:
        """Resources in which a quota can borrow: those of anybody's min, and those of its own max."""
        return {name for low in self.low.values() for name in low} | set(self.high[ns])

    def over(self, ns: str, gone: Collection[str] = ()) -> set[str]:
        """Resources of which what runs of a quota (namespace) is more than its min, once `gone` are gone."""
        used = (self.without(gone) if gone else self).used(ns, reached=True)
        return {name for name in self.relevant(ns) if used.get(name, 0) > self.low[ns].get(name, 0)}

    def nominees(self, besides: Raw) -> list[Raw]:
        """Waiting pods other than this one that a node is kept for, which they still can use."""
        found = self._nominated.get(self.closed_go)
        if found is None:
            found = self._nominated[self.closed_go] = [pod for pod in self.waiting if self._is_nominated(pod)]
        return [pod for pod in found if key(pod) != key(besides)]

    def _is_nominated(self, pod: Raw) -> bool:
        """Whether a node is kept for a pod that is still there, and has not closed to it since.

        What is merely kept for a waiting group is examined from time to time only, and counts until then. Of
        nodes for which its members evicted, all go with the first that closes (`closed_go`).
        """
        if nominated(pod) not in self.nodes or not self._in_waiting_group(pod):
            return self._keeps_its_node(pod)
        together = [
            other for other in self.members(group_key(pod)) if nominated(other) and not node_of(other)
        ]
        return not self.closed_go or all(map(self._keeps_its_node, together))

    def if_closed_go(self) -> View:
        """The same, if groups evicted for their nodes, and do not merely keep them: no object tells it."""
        found = copy.copy(self)
        found.closed_go = True
        return found

    def _keeps_its_node(self, pod: Raw) -> bool:
        node = self.nodes.get(nominated(pod))
        return node is not None and not (taint_reasons(pod, node) or affinity_reasons(pod, node))

    def right(self, pod: Raw) -> int:
        """The priority of a waiting pod; of nominated members that start together, the highest."""
        group = group_key(pod)
        if not nominated(pod) or group not in self.groups or needed(self, group) == 0:
            return priority(pod)
        return max(
            priority(other) for other in self.members(group) if nominated(other) and not node_of(other)
        )

    def own_nominated(self, pod: Raw, *, without_waiting: bool = False) -> Sums:
        """What nominated pods of the same quota with at least the pod's priority will use.

        Of two nominated pods of one priority the older one goes first. `without_waiting` leaves members of
        groups out that wait, for which nodes may be merely kept.
        """
        total: Sums = {}
        for other in self.nominees(pod):
            if without_waiting and self._in_waiting_group(other):
                continue
            right, own = self.right(other), self.right(pod)
            younger = right == own and self._is_nominated(pod) and _born(other) > _born(pod)
            if namespace(other) == namespace(pod) and right >= priority(pod) and not younger:
                add(total, cost(other))
        return total

    def covered_behind(self, pod: Raw) -> Sums:
        """What less important nominated pods of the same quota that stay within its min will use.

        A pod that would borrow does not pass them; one within the min does.
        """
        total: Sums = {}
        if self.within_min(pod):
            return total
        for other in self.nominees(pod):
            own = namespace(other) == namespace(pod) and not self._in_waiting_group(other)
            if own and self.right(other) < priority(pod) and self.within_min(other):
                add(total, cost(other))
        return total

    def others_nominated(self, pod: Raw, *, within: bool) -> Sums:
        """What nominated pods of other quotas will use.

        A pod `within` its min yields only in resources in which those quotas are, with what is nominated for
        them and without those who leave, not over theirs. What is merely kept for a gang does not make them
        so, and looks like what its members evicted for: members of waiting groups are left out there.
        """
        total: Sums = {}
        by_quota: dict[str, Sums] = {}
        paid: dict[str, Sums] = {}
        for other in self.nominees(pod):
            if namespace(other) != namespace(pod) and namespace(other) in self.quotas:
                add(by_quota.setdefault(namespace(other), {}), cost(other))
                sign = 0 if self._in_waiting_group(other) else 1
                add(paid.setdefault(namespace(other), {}), cost(other), sign)
        stay = self.stay() if by_quota else self
        for ns, kept in by_quota.items():
            used, low = stay.used(ns), self.low[ns]
            for name, value in kept.items():
                # Beyond its max no pod of a quota will start.
                most = max(0, self.high[ns].get(name, used.get(name, 0) + value) - used.get(name, 0))
                sure = used.get(name, 0) + paid[ns].get(name, 0)
                if not within:
                    add(total, {name: min(value, most)})
                elif not (name in self.relevant(ns) and sure > low.get(name, 0)):
                    # Until those have left who leave, they count, and not who waits for that as well.
                    left = low.get(name, 0) - self.used(ns).get(name, 0)
                    value -= self._awaited(ns).get(name, 0)
                    add(total, {name: max(0, min(value, left, most))})
        return total

    def _awaited(self, ns: str) -> Sums:
        """What pods of a quota hold that leave, and for whose end nominated pods of it wait: those alone."""
        total: Sums = {}
        leaving = [pod for pod in self.holders if self.leaves(pod)]
        alone = [pod for pod in self.waiting if self._is_nominated(pod) and not self._in_waiting_group(pod)]
        mine = [pod for pod in alone if namespace(pod) == ns]
        evicted = {key(pod): [other for other in leaving if _evicted_by(other, pod)] for pod in mine}
        for other in leaving:
            if namespace(other) == ns and any(
                other in evicted[key(pod)] or (not evicted[key(pod)] and node_of(other) == nominated(pod))
                for pod in mine
            ):
                add(total, cost(other))
        return total

    def _in_waiting_group(self, pod: Raw) -> bool:
        group = group_key(pod)
        return group in self.groups and needed(self, group) > 0

    def may_reclaim(self, pod: Raw) -> bool:
        """Whether the pod stays within min; one that evicted for its room goes before what is merely kept."""
        return self.within_min(pod) or (
            self._is_nominated(pod) and self.within_min(pod, without_waiting=True)
        )

    def within_min(self, pod: Raw, *, without_waiting: bool = False) -> bool:
        """Whether the pod stays within the min of its quota, once all who leave are gone."""
        ns = namespace(pod)
        if ns not in self.quotas:
            return False
        used = self.stay().used(ns)
        own = self.own_nominated(pod, without_waiting=without_waiting)
        low, relevant = self.low[ns], self.relevant(ns)
        return all(
            used.get(name, 0) + own.get(name, 0) + asked <= low.get(name, 0)
            for name, asked in cost(pod).items()
            if asked and name in relevant
        )

    def _alone_within_min(self, pod: Raw) -> bool:
        """Whether the pod stays within min, whoever else is nominated."""
        used, low = self.stay().used(namespace(pod)), self.low[namespace(pod)]
        asked = {name: value for name, value in cost(pod).items() if name in self.relevant(namespace(pod))}
        return all(used.get(n, 0) + value <= low.get(n, 0) for n, value in asked.items() if value)

    def refused(self, pod: Raw, *, reserved: bool = True) -> str:
        """Why its quota does not let the pod in; empty if it does. `reserved`: nominated pods count."""
        ns = namespace(pod)
        if ns not in self.quotas:
            return ""
        own = self.own_nominated(pod) if reserved else {}
        if reserved:
            add(own, self.covered_behind(pod))
        total = dict(own)
        if reserved:
            add(total, self.others_nominated(pod, within=self.within_min(pod)))
        guaranteed = self.within_min(pod) if reserved else self._alone_within_min(pod)
        used, in_use = self.used(ns), self.used_by_all(guaranteed=guaranteed)
        room = self.sum_of_min()
        high = self.high[ns]
        held = self.held_against(pod, reserved=reserved)
        beyond = held if held and not self._min_has_room(pod, own, held) else {}
        for name, asked in cost(pod).items():
            of_max = used.get(name, 0) + own.get(name, 0) + held.get(name, 0)
            if asked and name in high and of_max + asked > high[name]:
                return f"max of {name}"
            of_all = in_use.get(name, 0) + total.get(name, 0) + beyond.get(name, 0)
            if asked and name in room and of_all + asked > room[name]:
                return f"sum(min) of {name}"
        return ""

    def held_against(self, pod: Raw, *, reserved: bool) -> Sums:
        """What waiting groups of its quota hold that go before the pod.

        `reserved`: nominated pods count, so what is nominated for their members is not held as well.
        """
        total: Sums = {}
        own = group_key(pod)
        for hold in self.holds if any(hold.namespace == namespace(pod) for hold in self.holds) else ():
            if hold.namespace != namespace(pod) or hold.group == own or hold.place >= place_of(self, pod):
                continue
            amounts = dict(hold.amounts)
            # Who evicted waits for others to leave: until then its room is of no use to it alone.
            for other in self.nominees(pod) if reserved or self.leaving() else ():
                if group_key(other) == hold.group and self.right(other) >= priority(pod):
                    add(amounts, cost(other), -1)
            add(total, {name: value for name, value in amounts.items() if value > 0})
        return total

    def _min_has_room(self, pod: Raw, own: Mapping[str, int], held: Mapping[str, int]) -> bool:
        used, low = self.stay().used(namespace(pod)), self.low[namespace(pod)]
        return all(
            used.get(name, 0) + own.get(name, 0) + held.get(name, 0) + asked <= low.get(name, 0)
            for name, asked in cost(pod).items()
            if asked and name in self.relevant(namespace(pod))
        )


def evicted_for(victim: Raw) -> str:
    """The pod (key) for which a leaving pod was evicted; empty for none."""
    told = (victim.get("status") or {}).get("conditions") or ()
    texts = {item.get("type"): str(item.get("message", "")) for item in told}
    if "muster.dev/PreemptedFor" in texts:
        return texts["muster.dev/PreemptedFor"].partition(",")[0]
    # As older versions said it.
    return next((text.split()[2] for text in texts.values() if text.startswith("preempted by ")), "")


def _evicted_by(victim: Raw, pod: Raw) -> bool:
    return evicted_for(victim) == key(pod)


def place_of(view: View, pod: Raw) -> tuple[int, str, str]:
    """The place of a pod, or of its group, in the queue of those that hold quota."""
    group = group_key(pod)
    if group in view.groups:
        return place_of_group(view, group)
    return -priority(pod), pod["metadata"].get("creationTimestamp", ""), pod["metadata"].get("uid", "")


def place_of_group(view: View, group: str) -> tuple[int, str, str]:
    """The same for a group."""
    found = view.groups[group]
    own = found.obj["spec"].get("priority") if found.dialect == "native" else found.priority
    most = own if own is not None else max((priority(pod) for pod in view.members(group)), default=0)
    kind = _KIND_NAMES.get(found.dialect, f"{found.dialect}-PodGroup")
    name = f"{namespace(found.obj)}/{found.name} {kind}"
    # A native group takes the place of its first pod, whenever its own object was made.
    waiting = [pod for pod in view.members(group) if not node_of(pod)] if found.dialect == "native" else ()
    born = [str(obj["metadata"].get("creationTimestamp", "")) for obj in waiting or (found.obj,)]
    return -most, min(born), name


def _born(pod: Raw) -> tuple[str, str]:
    return str(pod["metadata"].get("creationTimestamp", "")), key(pod)


def _age(quota: Raw) -> tuple[str, str]:
    return quota["metadata"].get("creationTimestamp", ""), quota["metadata"]["name"]


def needed(view: View, group: str) -> int:
    """How many waiting members must start together for the group to be whole."""
    members = view.members(group)
    holding = sum(1 for pod in members if node_of(pod) and not finished(pod) and not going(pod))
    waiting = sum(1 for pod in members if not node_of(pod) and not finished(pod) and not going(pod))
    done = sum(1 for pod in members if (pod.get("status") or {}).get("phase") == "Succeeded")
    need = view.groups[group].minimum - holding
    if view.groups[group].minimum > holding + waiting:
        need -= done
    return max(0, need)
