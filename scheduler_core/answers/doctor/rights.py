"""Compares the rights that Muster's accounts have with those that this version needs.

Needed rights are those of the chart, by part (`account_rights.json`, of tests/tools/account_rights.py). A
spare right is one that no part in use needs: whoever steals its token has it, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler_core.answers.doctor.findings import HealthFinding, Severity, some
from scheduler_core.answers.doctor.schedulers import has_plugin
from scheduler_core.config.args.muster import CoschedulingArgs
from scheduler_core.config.schema import SchedulerConfiguration
from scheduler_core.model.admission_webhooks import NAME
from scheduler_core.model.kinds import MUTATING_WEBHOOKS, POD_GROUPS
from scheduler_core.model.names import CLUSTER_TOPOLOGY_PLACEMENT_GROUP

Manifest = Mapping[str, Any]

ALL: Final = "*"
READS: Final = frozenset({"get", "list", "watch"})
# Parts whose rights hold in the namespace of the account only.
OWN_NAMESPACE: Final = "-own-namespace"
SCHEDULER_HOME: Final = f"scheduler{OWN_NAMESPACE}"
TREES: Final = "scheduler-composite-groups"
# Roles of the chart with kinds that its values add: their owners may be read, and no more.
ADDED_KINDS: Final = ("muster-webhook-owners", "muster-webhook-added-gang-owners")
# What the API server lets everybody ask about themselves.
OF_EVERYBODY: Final = frozenset(
    {
        ("create", "authorization.k8s.io", "selfsubjectaccessreviews"),
        ("create", "authorization.k8s.io", "selfsubjectrulesreviews"),
        ("create", "authentication.k8s.io", "selfsubjectreviews"),
    }
)
# What does not work without a right: by part, verb and resource; the first that fits.
_CONSEQUENCES: Final[tuple[tuple[str, Collection[str], str, str], ...]] = (
    ("scheduler", ("create",), "pods/binding", "no pod is placed"),
    ("scheduler", ("delete",), "pods", "nobody is evicted"),
    ("scheduler", ("patch",), "pods/status", "pods do not say why they wait, and nobody is evicted"),
    ("scheduler", ("get",), ALL, "an answer that was lost is not looked up"),
    ("scheduler", ("patch",), "persistentvolumes", "volumes are not bound"),
    ("scheduler", ("patch",), "persistentvolumeclaims", "no node is chosen for volumes"),
    ("scheduler", ("create", "patch"), "events", "there are no Events"),
    ("scheduler", ("patch",), ALL, "its status is not written"),
    ("scheduler", ("create",), ALL, "/debug/cache and /configz answer nobody"),
    ("scheduler", ("list", "watch"), ALL, "the scheduler does not start"),
    ("scheduler-own-namespace", ALL, "leases", "no scheduler leads"),
    ("scheduler-own-namespace", ALL, "configmaps", "the history of quotas is not kept"),
    ("scheduler-topology", ALL, ALL, "groups with constraints in an annotation or a ConfigMap do not start"),
    ("scheduler-gang-budgets", ALL, ALL, "gangs get no PodDisruptionBudget"),
    ("scheduler-composite-groups", ALL, ALL, "trees of groups are not known"),
    ("scheduler-node-metrics", ALL, ALL, "NodeMetrics do not follow the nodes"),
    ("scheduler-load-report", ALL, ALL, "NodeMetrics are not filled"),
    ("webhook", ("create", "list"), "events", "broken rules have no Events"),
    ("webhook", ("create", "update"), "reservationledgers", "reservations and charges are refused"),
    ("webhook", ("create",), ALL, "warnings leave out what the user may read"),
    ("webhook", ("get",), ALL, "pods whose owner or namespace is new are refused"),
    ("webhook", ALL, ALL, "the webhook does not start, or refuses what it cannot judge"),
    ("webhook-own-namespace", ALL, ALL, "the webhook has no certificate"),
    ("webhook-ca-bundle", ALL, ALL, "the API server does not trust the webhook"),
    ("webhook-adoption", ALL, ALL, "pods that passed by are not brought back"),
    ("webhook-gang-owners", ALL, ALL, "pods of gangs from owners are refused"),
    ("console", ALL, ALL, "pages lack what they show of it"),
)


class Right(msgspec.Struct, frozen=True, order=True):
    """One verb on one resource (or `resource/subresource`), of all names or of some."""

    verb: str
    group: str
    resource: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        """`patch pods/status`, `get secrets (muster-webhook-certificate)`."""
        if (self.verb, self.group, self.resource) == (ALL, ALL, ALL):
            return "do everything"
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}" + (f" ({', '.join(self.names)})" if self.names else "")

    def covers(self, other: Right) -> bool:
        """Whether who has this right has the other one."""
        same = all(
            mine in (ALL, theirs) for mine, theirs in ((self.verb, other.verb), (self.group, other.group))
        )
        named = not self.names or (bool(other.names) and set(other.names) <= set(self.names))
        return same and named and self._reaches(other.resource)

    def _reaches(self, resource: str) -> bool:
        part = resource.partition("/")[2]
        return self.resource in (ALL, resource) or (bool(part) and self.resource == f"{ALL}/{part}")


# By policy: a right that it limits, and what a token with this right can do without it.
POLICIES: Final[Mapping[str, tuple[Right, str]]] = {
    "muster-scheduler-pods": (Right("patch", "", "pods"), "change what any pod runs, also in kube-system"),
    "muster-scheduler-pod-status": (Right("patch", "", "pods/status"), "write any status of any pod"),
    "muster-scheduler-bindings": (
        Right("create", "", "pods/binding"),
        "label and annotate pods by binding them",
    ),
    "muster-scheduler-volumes": (Right("patch", "", "persistentvolumes"), "take volumes from their claims"),
    "muster-scheduler-claims": (Right("patch", "", "persistentvolumeclaims"), "change any claim"),
    "muster-scheduler-groups": (Right("patch", POD_GROUPS.group, "podgroups"), "change any PodGroup"),
    "muster-scheduler-configmaps": (Right("patch", "", "configmaps"), "write other ConfigMaps"),
    "muster-scheduler-budgets": (
        Right("patch", "policy", "poddisruptionbudgets"),
        "write any PodDisruptionBudget",
    ),
    "muster-webhook-groups": (Right("patch", POD_GROUPS.group, "podgroups"), "change any PodGroup"),
    "muster-webhook-configurations": (
        Right("update", MUTATING_WEBHOOKS.group, MUTATING_WEBHOOKS.plural, (NAME,)),
        "have the API server send any object anywhere",
    ),
    "muster-adoption": (Right("patch", "", "pods"), "change what pods run"),
}


class GrantedRight(msgspec.Struct, frozen=True):
    """A right that is in force: `namespace` is empty for all; `role` says where it is from."""

    right: Right
    namespace: str
    role: str


class ProgramAccount(msgspec.Struct, frozen=True):
    """A service account of Muster. `component`: scheduler, webhook or console."""

    component: str
    namespace: str
    name: str

    @property
    def subject(self) -> str:
        """As findings name it."""
        return f"ServiceAccount {self.namespace}/{self.name}"

    @property
    def groups(self) -> frozenset[str]:
        """The groups whose rights every such account has."""
        each = ("system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{self.namespace}")
        return frozenset(each)

    @property
    def user(self) -> str:
        """Its name as a user."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


@cache
def needed_rights() -> Mapping[str, tuple[Right, ...]]:
    """What the parts of the chart need."""
    text = Path(__file__).with_name("account_rights.json").read_text()
    parts: dict[str, list[dict[str, Any]]] = msgspec.json.decode(text)
    return {
        part: tuple(right for rule in rules for right in rights_of(rule)) for part, rules in parts.items()
    }


def rights_of(rule: Manifest) -> Iterator[Right]:
    """The rights of a rule of a role; none for one about URLs."""
    names = tuple(sorted(rule.get("resourceNames") or ()))
    for verb in rule.get("verbs") or ():
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                yield Right(verb, group, resource, names)


def parts_of(component: str) -> list[str]:
    """The parts that are for an account."""
    own = [part for part in needed_rights() if part.partition("-")[0] == component]
    return [*own, TREES] if component == "console" else own


def parts_of_config(config: SchedulerConfiguration) -> Iterator[str]:
    """The optional parts that a configuration of the scheduler uses."""
    for profile in config.profiles:
        if has_plugin(profile, CLUSTER_TOPOLOGY_PLACEMENT_GROUP):
            yield "scheduler-topology"
        for entry in profile.plugin_config:
            if isinstance(entry.args, CoschedulingArgs):
                yield from ["scheduler-gang-budgets"] * entry.args.disruption_budgets
                yield from [TREES] * entry.args.composite_pod_groups


def applies(subjects: Iterable[Manifest], account: ProgramAccount, namespace: str) -> bool:
    """Whether a binding is for the account, by its name or by a group; `namespace` is that of the binding."""
    for subject in subjects:
        kind, name = subject.get("kind"), subject.get("name")
        where = subject.get("namespace") or namespace
        if kind == "ServiceAccount" and (where, name) == (account.namespace, account.name):
            return True
        if (kind == "User" and name == account.user) or (kind == "Group" and name in account.groups):
            return True
    return False


def check_rights(
    account: ProgramAccount, granted: Sequence[GrantedRight], asked: Collection[str] = ()
) -> list[HealthFinding]:
    """Findings on the rights of an account: those that parts lack, and those that no part needs.

    `asked` are optional parts that the configuration uses; those whose role the account has are in use, too.
    """
    parts = _parts_in_use(account, granted, asked)
    return [*_missing(account, granted, parts), *_spare(account, granted, parts)]


def _missing(
    account: ProgramAccount, granted: Sequence[GrantedRight], parts: Collection[str]
) -> Iterator[HealthFinding]:
    lacking: dict[tuple[Severity, str], list[str]] = defaultdict(list)
    for part in parts:
        own = part.endswith(OWN_NAMESPACE)
        severity: Severity = "error" if own or part == account.component else "warning"
        for right in needed_rights()[part]:
            if not _is_held(right, granted, account.namespace if own else "", part):
                lacking[severity, _consequence(part, right)].append(str(right))
    for (severity, consequence), told in lacking.items():
        problem = f"may not {some(told)}: {consequence}"
        yield HealthFinding(severity, account.subject, problem, "install the rights of this version's chart")


def _parts_in_use(
    account: ProgramAccount, granted: Sequence[GrantedRight], asked: Collection[str]
) -> list[str]:
    roles = {held.role for held in granted}
    always = {account.component, *asked} | ({SCHEDULER_HOME} if account.component == "scheduler" else set())
    return [part for part in parts_of(account.component) if part in always or _role(part) in roles]


def _role(part: str) -> str:
    """The role of a part, as the chart names it."""
    if part.endswith(OWN_NAMESPACE):
        return f"Role muster-{part.removesuffix(OWN_NAMESPACE)}"
    return f"ClusterRole muster-{part}"


def _is_held(right: Right, granted: Sequence[GrantedRight], namespace: str, part: str) -> bool:
    """Whether a right is in force where it is needed: `namespace`, or everywhere if empty.

    The chart may limit results on a topology to some namespaces.
    """
    anywhere = part == "scheduler-topology"
    return any(
        held.right.covers(right) and (anywhere or held.namespace in ("", namespace)) for held in granted
    )


def _consequence(part: str, right: Right) -> str:
    """What does not work without a right."""
    return next(
        words
        for of, verbs, resource, words in _CONSEQUENCES
        if of == part and (ALL in verbs or right.verb in verbs) and resource in (ALL, right.resource)
    )


def _spare(
    account: ProgramAccount, granted: Sequence[GrantedRight], parts: Collection[str]
) -> Iterator[HealthFinding]:
    by_role: dict[str, list[Right]] = defaultdict(list)
    for held in granted:
        if not _is_needed(account, held, parts):
            by_role[held.role].append(held.right)
    for role, rights in by_role.items():
        told = [str(right) for right in sorted(set(rights))]
        problem = f"may {some(told)} by {role}, which this version does not need: so may who has its token"
        harm = any(right.verb not in READS or right.resource in (ALL, "secrets") for right in rights)
        severity: Severity = "error" if harm else "warning"
        yield HealthFinding(severity, account.subject, problem, "take it away from the account")


def _is_needed(account: ProgramAccount, held: GrantedRight, parts: Collection[str]) -> bool:
    right = held.right
    if (right.verb, right.group, right.resource) in OF_EVERYBODY:
        return True
    if held.role.rpartition(" ")[2] in ADDED_KINDS and right.verb == "get" and right.group:
        return True
    for part in parts:
        if part.endswith(OWN_NAMESPACE) and held.namespace != account.namespace:
            continue
        if any(needed.covers(right) for needed in needed_rights()[part]):
            return True
    return False


def check_policies(
    account: ProgramAccount,
    granted: Sequence[GrantedRight],
    policies: Sequence[Manifest],
    bindings: Sequence[Manifest],
) -> list[HealthFinding]:
    """A finding if policies that limit the rights of the account are not in force."""
    present = {_name(policy) for policy in policies if account.user in _conditions(policy)}
    denied = {
        (binding.get("spec") or {}).get("policyName")
        for binding in bindings
        if "Deny" in ((binding.get("spec") or {}).get("validationActions") or ())
    }
    lacking = [
        name
        for name, (right, _) in POLICIES.items()
        if _is_for(name, account.component) and any(held.right.covers(right) for held in granted)
        if name not in present & denied
    ]
    if not lacking:
        return []
    can = ", ".join(dict.fromkeys(POLICIES[name][1] for name in lacking))
    problem = f"is not limited by {some(lacking)}: who has its token can {can}"
    return [HealthFinding("warning", account.subject, problem, "set admissionPolicies.enabled=true")]


def _is_for(policy: str, component: str) -> bool:
    return policy.startswith(f"muster-{component}-") or (component, policy) == ("webhook", "muster-adoption")


def _name(obj: Manifest) -> str:
    return str((obj.get("metadata") or {}).get("name", ""))


def _conditions(policy: Manifest) -> str:
    conditions = (policy.get("spec") or {}).get("matchConditions") or ()
    return "".join(str(condition.get("expression", "")) for condition in conditions)
