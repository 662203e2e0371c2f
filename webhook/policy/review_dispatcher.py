"""Decides every review: dispatches it by kind and operation to the policy of that kind.

Decisions rest on the cache. Requests to the API server are rare:

- quotas: see `webhook.policy.quota_reviews`;
- groups with topology constraints: the topology ConfigMaps are listed when users change the group;
- a new group without a total for a resource that a quota limits: its pods are listed, and without any its
  Workload and the controller of that are read; a pod of a group in a namespace with limits: its group;
- a quota whose limits change: the groups and pods of the namespace are listed;
- a quota whose `min` makes a resource shared: whether the user may list quotas everywhere, and then the pods
  of five other namespaces at most;
- a pod in a namespace that the watch has not shown yet: the namespace is read;
- a pod in a namespace with `muster.dev/gang: auto`: its owners are read, and their PodGroup is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from scheduler_core.model.config_map import ConfigMap
from scheduler_core.model.kinds import ELASTIC_QUOTAS, POD_GROUPS, QUOTA_FLAVORS, QUOTA_GROUPS
from scheduler_core.model.names import (
    EXEMPT_LABEL,
    EXEMPT_NAMESPACES,
    GANG_AUTO,
    GANG_LABEL,
    MUSTER_SCHEDULER,
    TOPOLOGY_NAMESPACE,
)
from scheduler_core.model.namespace import Namespace
from scheduler_core.model.pods.requests import CurrentRule, ResizeRule
from scheduler_core.model.quotas.elastic_quota import KIND as ELASTIC_QUOTA
from scheduler_core.model.quotas.reservation_ledger import Hold
from scheduler_core.model.quotas.resource_quota import KIND as RESOURCE_QUOTA
from scheduler_core.quota.reservations.limits import ReservationRefusal
from webhook.http.admission_review import Malformed, ReviewRequest, Unready
from webhook.owner_gangs.gang import GangUndecided
from webhook.policy.config_maps import judge_config_map, warn_of_missing_label
from webhook.policy.elastic_quotas import SumMode
from webhook.policy.group_reviews import GroupReviews
from webhook.policy.job_failure import JOB, admit_job
from webhook.policy.other_scheduler_pods import (
    ForeignPods,
    admit_other_scheduler_pod,
    admit_resize,
    charge_patch,
    check_charged_annotation,
    is_exempt,
    judge_pod_update,
)
from webhook.policy.owner_gangs import NoGangs, OwnerGangs, judge_undecided, other_claim
from webhook.policy.pod_group_membership import (
    NewPod,
    NoOwners,
    Owners,
    check_name,
    chosen_group,
    default_group,
    is_of_other_dialect,
)
from webhook.policy.pod_groups import create_group, judge_annotations, update_group
from webhook.policy.pod_warnings import PodWarnings
from webhook.policy.pods import (
    admit_beside_reservations,
    assign,
    is_assignable,
    is_for_other_scheduler,
    is_managed,
    named_scheduler,
    read_pod,
)
from webhook.policy.quota_consequences import QuotaConsequences
from webhook.policy.quota_flavors import FlavorReviews
from webhook.policy.quota_groups import GroupTreeReviews
from webhook.policy.quota_reviews import QuotaReviews
from webhook.policy.topology_constraints import CONFIG_MAP, is_pod_group, judge_pod_group
from webhook.policy.verdict import ALLOW, Finding, Verdict, deny, refuse_for_now
from webhook.reservations.batches import Undecided
from webhook.reservations.charge_store import ChargeStore
from webhook.reservations.reservation_store import ReservationStore
from webhook.view.api_reads import ApiReads, OptionalReads
from webhook.view.cache import Cache

POD: Final = ("", "Pod")
_ELASTIC: Final = (ELASTIC_QUOTAS.group, ELASTIC_QUOTA)
_NATIVE: Final = ("", RESOURCE_QUOTA)
_GROUP: Final = (POD_GROUPS.group, POD_GROUPS.kind)
_TREE: Final = (QUOTA_GROUPS.group, QUOTA_GROUPS.kind)
_FLAVOR: Final = (QUOTA_FLAVORS.group, QUOTA_FLAVORS.kind)
_RESIZE: Final = "resize"


@dataclass(frozen=True)
class Settings:
    """The settings of an administrator.

    `other_schedulers`: further schedulerNames of Muster. `exempt_users`: users whose pods of other schedulers
    are not judged. `known_callers`: reviews come only from clients that showed a certificate.
    `topology_namespaces`: where the profiles of the schedulers have their topologies. `resize_rule`: that of
    the server's version.
    """

    scheduler_name: str = MUSTER_SCHEDULER
    sum_of_min: SumMode = "deny"
    exempt_namespaces: frozenset[str] = frozenset(EXEMPT_NAMESPACES)
    other_schedulers: frozenset[str] = frozenset()
    foreign_pods: ForeignPods = "Enforce"
    exempt_users: frozenset[str] = frozenset()
    known_callers: bool = False
    topology_namespaces: frozenset[str] = frozenset({TOPOLOGY_NAMESPACE})
    resize_rule: CurrentRule = ResizeRule.newest

    @property
    def ours(self) -> frozenset[str]:
        """The names of all schedulers of Muster, which check the quota of their pods themselves."""
        return self.other_schedulers | {self.scheduler_name}


class ReviewDispatcher:
    """Decides reviews: `mutate` and `validate` turn a request into a verdict. Thread-safe.

    `quotas` decides those of quotas.
    """

    def __init__(
        self,
        cache: Cache,
        settings: Settings | None = None,
        live: ApiReads | None = None,
        store: ReservationStore | None = None,
        owners: Owners | None = None,
        charges: ChargeStore | None = None,
        gangs: OwnerGangs | None = None,
    ) -> None:
        self.cache = cache
        self.settings = settings or Settings()
        self._reads = OptionalReads(live)
        self.quotas = QuotaReviews(cache, self.settings.sum_of_min, self._reads)
        known, mode = self.settings.known_callers, self.settings.sum_of_min
        self._tree = GroupTreeReviews(cache, mode, self._reads, known_callers=known)
        self._flavors = FlavorReviews(cache, self.settings.sum_of_min, self._reads)
        self._store = store
        self._owners = owners or NoOwners()
        self._gangs = gangs or NoGangs()
        self._charges = charges
        self._ours = self.settings.ours
        self._advice = PodWarnings(self._reads, self._ours)
        self._groups = GroupReviews(cache, self._reads)
        self._consequences = QuotaConsequences(cache, self._reads, known_callers=known)

    def mutate(self, request: ReviewRequest) -> Verdict:
        """The verdict of /mutate. Raises Malformed and Unready.

        It assigns new pods of managed namespaces to Muster's scheduler, and lets new Jobs ignore evictions.
        """
        kind, name = (request.kind.group, request.kind.kind), request.namespace
        if kind not in (POD, JOB) or request.operation != "CREATE" or request.sub_resource:
            return ALLOW
        if not name or name in self.settings.exempt_namespaces:
            return ALLOW
        self._require_synced()
        if kind == JOB:
            return self._mutate_job(request, name)
        pod = read_pod(request.object)
        if not is_assignable(pod, self._ours):
            judged = is_for_other_scheduler(pod, self._ours) and self._charges_admission(request)
            return Verdict(patch=charge_patch(pod)) if judged else ALLOW
        home = self._namespace(name)
        labels = home.labels if home is not None else {}
        if labels.get(EXEMPT_LABEL) == "true":
            return ALLOW
        managed = is_managed(name, labels, self.cache.has_quota(name), self.settings.exempt_namespaces)
        ours = partial(self.cache.reservations.has_group, name)
        scheduler = named_scheduler(pod, self._ours) or self.settings.scheduler_name
        if is_of_other_dialect(pod, ours):
            return assign(pod, scheduler, "") if managed else ALLOW
        automatic = labels.get(GANG_LABEL) == GANG_AUTO
        group = chosen_group(pod, name, ours, self._owners, ask=managed or automatic)
        if automatic and group == pod.named:
            return self._assign_by_owner(request, pod, home, scheduler, managed)
        group = group or default_group(home)
        return assign(pod, scheduler, group) if managed or group else ALLOW

    def _assign_by_owner(
        self, request: ReviewRequest, pod: NewPod, home: Namespace | None, scheduler: str, managed: bool
    ) -> Verdict:
        """Assign a pod to the gang that its owner asks for, whose group is made now; one that names a group
        that exists stays in it, whatever can be read. The group of its own words is made from stored pods.
        """
        namespace = request.namespace or ""
        exists = bool(pod.named) and self.cache.reservations.has_group(namespace, pod.named)
        try:
            gang = self._gangs.find(namespace, request.object, pod)
            if gang is None or pod.named not in ("", gang.name):
                group = pod.named or default_group(home)
                verdict = assign(pod, scheduler, group) if managed or group else ALLOW
                return verdict.warning(other_claim(pod, namespace, gang))
            # What a pod says of itself is only compared with what there is.
            if not exists and (gang.stored or not request.dry_run):
                self._gangs.ensure(namespace, gang)
        except GangUndecided as error:
            if exists:
                return assign(pod, scheduler, pod.named)
            return judge_undecided(f"Pod {namespace}/{pod.metadata.name or request.name or ''}", error)
        return assign(pod, scheduler, gang.name, gang.priority, mark=gang.stored)

    def _mutate_job(self, request: ReviewRequest, name: str) -> Verdict:
        home = self._namespace(name)
        labels = home.labels if home is not None else {}
        if labels.get(EXEMPT_LABEL) == "true":
            return ALLOW
        return admit_job(request.object, labels, self.cache.quota_of(name))

    def _namespace(self, name: str) -> Namespace | None:
        return self.cache.namespace(name) or self._reads.ask(lambda live: live.namespace(name))

    def _charges_admission(self, request: ReviewRequest) -> bool:
        """Whether a pod of another scheduler, or a resize, by this user is charged to the quota."""
        name, settings = request.namespace or "", self.settings
        exempt = settings.foreign_pods == "Allow" or is_exempt(request.user_info, settings.exempt_users)
        if exempt or not self.cache.has_quota(name):
            return False
        home = self._namespace(name)
        return is_managed(name, home.labels if home is not None else {}, True, settings.exempt_namespaces)

    def validate(self, request: ReviewRequest) -> Verdict:
        """The verdict of /validate on quotas, groups, ConfigMaps and pods; all other kinds are allowed.

        Subresources are allowed, except `pods/resize`: controllers write `status`. Raises Malformed and
        Unready.
        """
        if (request.kind.group, request.kind.kind) == POD:
            return self._validate_pod(request)
        if request.sub_resource or request.operation not in ("CREATE", "UPDATE", "DELETE"):
            return ALLOW
        kind = (request.kind.group, request.kind.kind)
        placed = self._validate_placement(request, kind)
        if not placed.allowed:
            return placed
        if kind not in (_ELASTIC, _NATIVE, _GROUP, _TREE, _FLAVOR):
            if request.operation == "DELETE" or not (kind == CONFIG_MAP or is_pod_group(kind)):
                return placed
            fits = self._groups.judge(request, kind)
            return placed.warning(fits.warnings) if fits.allowed else fits
        _require_objects(request)
        self._require_synced()
        if kind == _GROUP:
            return self._validate_group(request)
        if kind == _TREE:
            return self._tree.judge(request)
        if kind == _FLAVOR:
            return self._flavors.judge(request)
        verdict = self.quotas.native(request) if kind == _NATIVE else self.quotas.elastic(request)
        if not verdict.allowed:
            return verdict
        verdict = verdict.warning(self._groups.on_quota(request))
        return verdict if kind == _NATIVE else verdict.warning(self._consequences.on_quota(request))

    def _validate_placement(self, request: ReviewRequest, kind: tuple[str, str]) -> Verdict:
        """Judge topologies, groups in ConfigMaps, and the annotations of PodGroups; allow all other kinds."""
        if request.operation == "DELETE" or not (kind == CONFIG_MAP or is_pod_group(kind)):
            return ALLOW
        _require_objects(request)

        def topologies() -> Sequence[ConfigMap] | None:
            found = self._reads.ask(lambda live: live.topologies())
            # Without topologies, the tree of node labels counts, which must be known.
            return None if not found and self.cache.unsynced else found

        def labels() -> frozenset[str]:
            return self.cache.node_labels

        old = request.old_object if request.operation == "UPDATE" else None
        annotated = judge_annotations(request.object, old, kind)
        if not annotated.allowed:
            return annotated
        if kind == CONFIG_MAP:
            verdict = judge_config_map(request.object, old, topologies, labels)
            return verdict.warning(warn_of_missing_label(request.object, request.namespace or ""))
        return judge_pod_group(request.object, kind[0], topologies, old, labels)

    def _validate_pod(self, request: ReviewRequest) -> Verdict:
        """Judge a new, updated or resized pod; without reservations this needs no request."""
        updated = request.operation == "UPDATE" and not request.sub_resource
        resized = request.operation == "UPDATE" and request.sub_resource == _RESIZE
        new = request.operation == "CREATE" and not request.sub_resource
        namespace = request.namespace or ""
        if not (new or updated or resized) or namespace in self.settings.exempt_namespaces:
            return ALLOW
        _require_objects(request)
        if updated:
            return judge_pod_update(request.object, request.old_object, namespace)
        pod = read_pod(request.object)
        other_scheduler = new and is_for_other_scheduler(pod, self._ours)
        broken = check_name(pod, namespace) if new else None
        if broken is not None:
            return deny([Finding("group", broken)])
        forged = check_charged_annotation(pod, namespace) if new and not other_scheduler else None
        if forged is not None:
            return deny([Finding("max", forged)])
        verdict = self._validate_use(request, other_scheduler) if other_scheduler or resized else ALLOW
        if new:
            verdict = verdict.warning(self._advice.on_pod(pod, namespace))
            verdict = verdict.warning(self._groups.on_pod(request.object, pod, namespace))
        store = self._store
        if store is None or not verdict.allowed:
            return verdict
        self._require_synced()
        if not self.cache.natives(namespace) or not self.cache.reservations.has_reservations(namespace):
            return verdict
        charge = partial(store.charge, namespace, dry_run=bool(request.dry_run))
        try:
            held = admit_beside_reservations(request.object, charge, self.settings.resize_rule())
        except Undecided as error:
            return refuse_for_now(f"Pod {namespace}/{request.name or ''}: {error}")
        return verdict if held.allowed else held

    def _validate_use(self, request: ReviewRequest, other_scheduler: bool) -> Verdict:
        """Charge the ElasticQuota, if any, for a pod of another scheduler or for a resize."""
        charges = self._charges
        if charges is None:
            return ALLOW
        self._require_synced()
        if not self._charges_admission(request):
            return ALLOW
        namespace = request.namespace or ""
        admit = partial(charges.charge, namespace, dry_run=bool(request.dry_run))
        try:
            if other_scheduler:
                return admit_other_scheduler_pod(request, admit, self.settings.foreign_pods)
            return admit_resize(request, admit, self.settings.foreign_pods, self.settings.resize_rule())
        except Undecided as error:
            return refuse_for_now(f"Pod {namespace}/{request.name or ''}: {error}", "max")

    def _validate_group(self, request: ReviewRequest) -> Verdict:
        if request.operation == "DELETE":
            return ALLOW
        namespace = request.namespace or ""
        limits, natives = self._groups.limits(namespace), self.cache.natives(namespace)
        if request.operation == "UPDATE":
            return update_group(request.object, request.old_object, limits, self._groups.examples)

        def reserve(hold: Hold) -> Sequence[ReservationRefusal]:
            if self._store is None:
                return ()
            return self._store.reserve(namespace, hold, dry_run=bool(request.dry_run))

        try:
            return create_group(request.object, limits, natives, reserve, self._groups.examples)
        except Undecided as error:
            return refuse_for_now(f"PodGroup {namespace}/{request.name or ''}: {error}")

    def _require_synced(self) -> None:
        unsynced = self.cache.unsynced
        if unsynced:
            raise Unready(f"the webhook has not listed all {', '.join(unsynced)} yet; try again")


def _require_objects(request: ReviewRequest) -> None:
    if request.operation != "DELETE" and not request.has_object:
        raise Malformed(f"request.object is missing in {request.operation}")
    if request.operation != "CREATE" and not request.has_old:
        raise Malformed(f"request.oldObject is missing in {request.operation}")
