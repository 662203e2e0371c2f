"""Which policy answers which request. Decisions come from memory; few questions may go to the API server.

- About quotas: see `quota_reviews`.
- About groups with constraints: the topology ConfigMaps are listed, when what users say of a group changes.
- About a new PodGroup whose totals leave open what its quota limits: the pods that name it already.
- A pod in a namespace that the watch has not shown yet: its labels are fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from scheduler_core.model.config_map import ConfigMap
from scheduler_core.model.elastic_quota import KIND as ELASTIC_QUOTA
from scheduler_core.model.kinds import ELASTIC_QUOTAS, POD_GROUPS
from scheduler_core.model.names import EXEMPT_LABEL, EXEMPT_NAMESPACES, MUSTER_SCHEDULER
from scheduler_core.model.namespace import Namespace
from scheduler_core.model.pod_use import PodUse
from scheduler_core.model.reservation_ledger import Hold
from scheduler_core.model.resource_quota import KIND as RESOURCE_QUOTA
from scheduler_core.quota.ledger_bounds import Lack
from webhook.advice import Advice, on_config_map
from webhook.batches import Undecided
from webhook.cache import Cache
from webhook.elastic_charges import ElasticCharges
from webhook.foreign import (
    ForeignPods,
    admit_foreign,
    admit_growth,
    charge_patch,
    check_claim,
    is_exempt,
    judge_change,
)
from webhook.groups import admit_pod, create_group, judge_lifecycle, update_group
from webhook.hold_store import HoldStore
from webhook.membership import NoOwners, Owners, check_name, group_of
from webhook.pods import assign, chosen, is_foreign, is_managed, is_open, read_pod
from webhook.quota_reviews import QuotaReviews
from webhook.quotas import SumMode
from webhook.reads import Live, Reads
from webhook.review import Malformed, Request, Unready
from webhook.topology import CONFIG_MAP, is_pod_group, judge_config_map, judge_pod_group
from webhook.verdict import ALLOW, Finding, Verdict, deny, refuse_for_now

POD: Final = ("", "Pod")
_ELASTIC: Final = (ELASTIC_QUOTAS.group, ELASTIC_QUOTA)
_NATIVE: Final = ("", RESOURCE_QUOTA)
_GROUP: Final = (POD_GROUPS.group, POD_GROUPS.kind)
_RESIZE: Final = "resize"


@dataclass(frozen=True)
class Settings:
    """What an administrator chooses.

    `other_schedulers` are further names of Muster's own; `exempt_users` may create foreign pods unjudged.
    """

    scheduler_name: str = MUSTER_SCHEDULER
    sum_of_min: SumMode = "deny"
    exempt_namespaces: frozenset[str] = frozenset(EXEMPT_NAMESPACES)
    other_schedulers: frozenset[str] = frozenset()
    foreign_pods: ForeignPods = "Enforce"
    exempt_users: frozenset[str] = frozenset()

    @property
    def ours(self) -> frozenset[str]:
        """The names of all schedulers that judge pods by their quota."""
        return self.other_schedulers | {self.scheduler_name}


class Service:
    """Admission as two functions of a request. Thread-safe."""

    def __init__(
        self,
        cache: Cache,
        settings: Settings | None = None,
        live: Live | None = None,
        store: HoldStore | None = None,
        owners: Owners | None = None,
        charges: ElasticCharges | None = None,
    ) -> None:
        self.cache = cache
        self.settings = settings or Settings()
        self._reads = Reads(live)
        self._quotas = QuotaReviews(cache, self.settings.sum_of_min, self._reads)
        self._store = store
        self._owners = owners or NoOwners()
        self._charges = charges
        self._ours = self.settings.ours
        self._advice = Advice(self._reads, self._ours)

    def mutate(self, request: Request) -> Verdict:
        """Send new pods of managed namespaces to Muster's scheduler. Raises Malformed and Unready."""
        if (request.kind.group, request.kind.kind) != POD or request.operation != "CREATE":
            return ALLOW
        name = request.namespace
        if request.sub_resource or not name or name in self.settings.exempt_namespaces:
            return ALLOW
        self._require_synced()
        pod = read_pod(request.object)
        if not is_open(pod, self._ours):
            judged = is_foreign(pod, self._ours) and self._judges_foreign(request)
            return Verdict(patch=charge_patch(pod)) if judged else ALLOW
        home = self._home(name)
        labels = home.labels if home is not None else {}
        if labels.get(EXEMPT_LABEL) == "true":
            return ALLOW
        managed = is_managed(name, labels, self.cache.has_quota(name), self.settings.exempt_namespaces)
        ours = partial(self.cache.holdings.has_group, name)
        group = group_of(pod, name, ours, self._owners, home, ask=managed)
        if not (managed or group):
            return ALLOW
        return assign(pod, chosen(pod, self._ours) or self.settings.scheduler_name, group)

    def _home(self, name: str) -> Namespace | None:
        return self.cache.namespace(name) or self._reads.ask(lambda live: live.namespace(name))

    def _judges_foreign(self, request: Request) -> bool:
        """Whether the quota of the namespace is charged for foreign pods and resizes of whoever asks."""
        name, settings = request.namespace or "", self.settings
        exempt = settings.foreign_pods == "Allow" or is_exempt(request.user_info, settings.exempt_users)
        if exempt or not self.cache.has_quota(name):
            return False
        home = self._home(name)
        return is_managed(name, home.labels if home is not None else {}, True, settings.exempt_namespaces)

    def validate(self, request: Request) -> Verdict:
        """Judge a change of a quota or group, and new pods; everything else passes.

        Subresources pass, except the resize of a pod: `status` is written by the controllers, and nobody
        else's concern. Raises Malformed and Unready.
        """
        if (request.kind.group, request.kind.kind) == POD:
            return self._validate_pod(request)
        if request.sub_resource or request.operation not in ("CREATE", "UPDATE", "DELETE"):
            return ALLOW
        kind = (request.kind.group, request.kind.kind)
        placed = self._validate_placement(request, kind)
        if not placed.allowed or kind not in (_ELASTIC, _NATIVE, _GROUP):
            return placed
        _require_objects(request)
        self._require_synced()
        if kind == _GROUP:
            return self._validate_group(request)
        return self._quotas.native(request) if kind == _NATIVE else self._quotas.elastic(request)

    def _validate_placement(self, request: Request, kind: tuple[str, str]) -> Verdict:
        """Topologies, group ConfigMaps, and what annotations of PodGroups ask; everything else passes."""
        if request.operation == "DELETE" or not (kind == CONFIG_MAP or is_pod_group(kind)):
            return ALLOW
        _require_objects(request)

        def topologies() -> Sequence[ConfigMap] | None:
            found = self._reads.ask(lambda live: live.topologies())
            # A cluster without topologies may have a tree of node labels: these must be known.
            return None if not found and self.cache.unsynced else found

        def labels() -> frozenset[str]:
            return self.cache.node_labels

        old = request.old_object if request.operation == "UPDATE" else None
        if kind == CONFIG_MAP:
            verdict = judge_config_map(request.object, old, topologies, labels)
            return verdict.warning(on_config_map(request.object, request.namespace or ""))
        lifecycle = judge_lifecycle(request.object, old, kind[0])
        if not lifecycle.allowed:
            return lifecycle
        return judge_pod_group(request.object, kind[0], topologies, old, labels)

    def _validate_pod(self, request: Request) -> Verdict:
        """A pod of a namespace in which nothing is reserved passes without a question to anybody."""
        if request.operation == "UPDATE" and not request.sub_resource:
            return self._validate_move(request)
        resized = request.operation == "UPDATE" and request.sub_resource == _RESIZE
        new = request.operation == "CREATE" and not request.sub_resource
        namespace = request.namespace or ""
        if not (new or resized) or namespace in self.settings.exempt_namespaces:
            return ALLOW
        _require_objects(request)
        pod = read_pod(request.object)
        foreign = new and is_foreign(pod, self._ours)
        broken = check_name(pod, namespace) if new else None
        if broken is not None:
            return deny([Finding("group", broken)])
        forged = check_claim(pod, namespace) if new and not foreign else None
        if forged is not None:
            return deny([Finding("max", forged)])
        verdict = self._validate_use(request, foreign) if foreign or resized else ALLOW
        if new:
            verdict = verdict.warning(self._advice.on_pod(pod, namespace))
        store = self._store
        if store is None or not verdict.allowed:
            return verdict
        self._require_synced()
        if not self.cache.natives(namespace) or not self.cache.holdings.holding(namespace):
            return verdict
        charge = partial(store.charge, namespace, dry_run=bool(request.dry_run))
        try:
            held = admit_pod(request.object, charge)
        except Undecided as error:
            return refuse_for_now(f"Pod {namespace}/{request.name or ''}: {error}")
        return verdict if held.allowed else held

    def _validate_use(self, request: Request, foreign: bool) -> Verdict:
        """Charge the ElasticQuota for a foreign pod, or for what a pod grows by, where there is one."""
        charges = self._charges
        if charges is None:
            return ALLOW
        self._require_synced()
        if not self._judges_foreign(request):
            return ALLOW
        namespace = request.namespace or ""
        admit = partial(charges.charge, namespace, dry_run=bool(request.dry_run))
        try:
            judge = admit_foreign if foreign else admit_growth
            return judge(request, admit, self.settings.foreign_pods)
        except Undecided as error:
            return refuse_for_now(f"Pod {namespace}/{request.name or ''}: {error}", "max")

    def _validate_move(self, request: Request) -> Verdict:
        namespace = request.namespace or ""
        if namespace in self.settings.exempt_namespaces:
            return ALLOW
        _require_objects(request)
        return judge_change(request.object, request.old_object, namespace)

    def _validate_group(self, request: Request) -> Verdict:
        if request.operation == "DELETE":
            return ALLOW
        if request.operation == "UPDATE":
            return update_group(request.object, request.old_object)
        namespace = request.namespace or ""
        quota, natives = self.cache.quota_of(namespace), self.cache.natives(namespace)

        def reserve(hold: Hold) -> Sequence[Lack]:
            if self._store is None:
                return ()
            return self._store.reserve(namespace, hold, dry_run=bool(request.dry_run))

        def members(group: str) -> Sequence[PodUse]:
            return self._reads.ask(lambda live: live.members(namespace, group)) or ()

        try:
            return create_group(request.object, quota, natives, reserve, members)
        except Undecided as error:
            return refuse_for_now(f"PodGroup {namespace}/{request.name or ''}: {error}")

    def _require_synced(self) -> None:
        unsynced = self.cache.unsynced
        if unsynced:
            raise Unready(f"the webhook has not seen all {', '.join(unsynced)} yet; try again")


def _require_objects(request: Request) -> None:
    if request.operation != "DELETE" and not request.has_object:
        raise Malformed(f"request.object is missing in {request.operation}")
    if request.operation != "CREATE" and not request.has_old:
        raise Malformed(f"request.oldObject is missing in {request.operation}")
