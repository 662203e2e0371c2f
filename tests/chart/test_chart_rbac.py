"""The chart's rights are exactly what the code can ask for: nothing is missing, and nothing is to spare.

Requests are found in the syntax (`api_calls`). Whoever adds one has to add the right in
`charts/muster/rbac/`; whoever removes the last one has to take it away.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_plugin.live.lists import BESIDE
from scheduler_core.answers.doctor.rights import (
    POLICIES,
    GrantedRight,
    ProgramAccount,
    applies,
    check_policies,
    check_rights,
    parts_of_config,
    rights_of,
)
from scheduler_core.app.load_reporter import NODE_USAGE, POD_USAGE
from scheduler_core.config import load_config
from scheduler_core.model import kinds
from scheduler_core.model.admission_webhooks import NAME
from scheduler_core.model.groups.gang import RESOURCES
from scheduler_core.model.kinds import Resource
from scheduler_core.model.names import EXEMPT_NAMESPACES
from scheduler_core.model.watched import WATCHED as SCHEDULER_WATCHED
from tests.chart.api_calls import Call, calls
from tests.chart.rendering import CASES, CHART, NAMESPACE, Obj, objects, of_kind, one, values_of
from tests.tools import account_rights, chart_account_policies, chart_gang_owners
from webhook.owner_gangs.table import built_in, read_entries
from webhook.view.cache import WATCHED as WEBHOOK_WATCHED
from webhook.view.owners import WORKLOADS

RULES = CHART / "rbac"
ROLE_KINDS = ("ClusterRole", "Role")
CODE = {
    "scheduler": tuple(
        f"scheduler_core/{name}"
        for name in ("app", "engine", "controllers", "plugins", "framework", "state", "kube")
    ),
    "webhook": ("webhook",),
    # What it takes from the command line's modules stands with it: other commands have the user's own rights.
    "console": (
        "kubectl_plugin/console",
        "kubectl_plugin/cluster/reflectors.py",
        "kubectl_plugin/live/configuration.py",
        "scheduler_core/kube/access_reviews.py",
    ),
}

# verb, API group, resource or resource/subresource
Right = tuple[str, str, str]

# Which file of rules a request belongs to, where it is not the component's main one.
PARTS = {
    "scheduler_core/kube/lease.py": "scheduler-own-namespace",
    "scheduler_core/controllers/history_day_file.py": "scheduler-own-namespace",
    "scheduler_core/controllers/quota_history.py": "scheduler-own-namespace",
    "scheduler_core/controllers/topology_group_status.py": "scheduler-topology",
    "scheduler_core/engine/gang/topology_placement.py": "scheduler-topology",
    "scheduler_core/controllers/gang_budgets.py": "scheduler-gang-budgets",
    "scheduler_core/controllers/node_metric_policy.py": "scheduler-node-metrics",
    "scheduler_core/app/load_reporter.py": "scheduler-load-report",
    "webhook/certs/store.py": "webhook-own-namespace",
    "webhook/certs/ca_bundle.py": "webhook-ca-bundle",
    "webhook/view/recreation.py": "webhook-adoption",
    "webhook/owner_gangs/finder.py": "webhook-gang-owners",
    "webhook/owner_gangs/made_groups.py": "webhook-gang-owners",
    "webhook/owner_gangs/stored_gangs.py": "webhook-gang-owners",
    "webhook/owner_gangs/upkeep.py": "webhook-gang-owners",
}
GROUP_KINDS = tuple(RESOURCES.values())
GANG_OWNERS = tuple(
    Resource(entry.group, entry.version, entry.resource, entry.kind) for entry in built_in().entries
)
CONFIGURATIONS = (kinds.VALIDATING_WEBHOOKS, kinds.MUTATING_WEBHOOKS)

CONSOLE_WATCHED = (*(kind for kind, _ in SCHEDULER_WATCHED), *BESIDE, kinds.JOBS)

# Requests whose resource is a variable: what it can be.
VARIABLE: dict[Call, tuple[Resource, ...]] = {
    Call("scheduler_core/app/debugger.py", "list"): (kinds.NODES, kinds.PODS, kinds.ELASTIC_QUOTAS),
    Call("scheduler_core/app/load_reporter.py", "list"): (NODE_USAGE, POD_USAGE),
    Call("scheduler_core/controllers/gang_status.py", "patch", subresource="status"): GROUP_KINDS,
    Call("scheduler_core/controllers/topology_group_status.py", "patch"): GROUP_KINDS,
    Call("webhook/certs/ca_bundle.py", "get"): CONFIGURATIONS,
    Call("webhook/certs/ca_bundle.py", "update"): CONFIGURATIONS,
    Call("webhook/view/listing.py", "list"): (
        kinds.CONFIG_MAPS,
        kinds.ELASTIC_QUOTAS,
        kinds.PODS,
        *GROUP_KINDS,
        kinds.RESOURCE_QUOTAS,
    ),
    # The rights to read a JobSet come with `webhook.readableOwners`.
    Call("webhook/view/group_reads.py", "get"): (kinds.WORKLOADS, *WORKLOADS),
    Call("webhook/view/api_reads.py", "list"): (
        kinds.LEASES,
        kinds.DEPLOYMENTS,
        kinds.ENDPOINTS,
        kinds.EVENTS,
        kinds.PODS,
    ),
    Call("webhook/view/owners.py", "get"): WORKLOADS,
    Call("webhook/owner_gangs/finder.py", "get"): GANG_OWNERS,
    Call("kubectl_plugin/console/cluster/feeds.py", "list"): CONSOLE_WATCHED,
    Call("kubectl_plugin/cluster/reflectors.py", "watch"): CONSOLE_WATCHED,
    Call("webhook/process.py", "watch"): (*(kind for kind, _ in WEBHOOK_WATCHED), *WORKLOADS),
}
# One call site that is a request of several parts.
ELSEWHERE: dict[Call, dict[str, tuple[Resource, ...]]] = {
    Call("scheduler_core/app/wiring.py", "watch"): {
        "scheduler": tuple(kind for kind, _ in SCHEDULER_WATCHED),
        "scheduler-composite-groups": (kinds.COMPOSITE_POD_GROUPS,),
    },
    Call("webhook/certs/source.py", "watch"): {
        "webhook-own-namespace": (kinds.SECRETS,),
        "webhook-ca-bundle": CONFIGURATIONS,
    },
}
# Not requests of their own: they carry out what others ask for, or need no more than a login.
CARRIERS = {
    Call("scheduler_core/controllers/gang_status.py", "patch"),
    Call("scheduler_core/kube/client.py", "call"),
    Call("scheduler_core/kube/client.py", "list"),
    Call("scheduler_core/kube/paging.py", "list"),
    Call("scheduler_core/kube/server_version.py", "call"),
    Call("scheduler_core/kube/watch/reflector.py", "list"),
    Call("webhook/view/owners.py", "call"),
    Call("webhook/owner_gangs/finder.py", "call"),
}
# Done by an administrator, or by the chart, where Muster is installed by the chart.
BY_OTHERS = {
    *(Call("webhook/certs/registration.py", verb) for verb in ("create", "delete", "get", "update")),
    Call("webhook/certs/store.py", "create", "SECRETS"),
}
# Writes that no policy confines: they are Muster's own objects, its words about others, and questions.
_QUESTIONS = {
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
}
UNGUARDED = {
    "scheduler": {
        *_QUESTIONS,
        *((group, "podgroups/status") for group in sorted({kind.group for kind in GROUP_KINDS})),
        ("scheduling.x-k8s.io", "elasticquotas/status"),
        ("muster.dev", "quotaflavors/status"),
        ("muster.dev", "quotagroups/status"),
        ("slo.koordinator.sh", "nodemetrics"),
        ("slo.koordinator.sh", "nodemetrics/status"),
        ("events.k8s.io", "events"),
        ("coordination.k8s.io", "leases"),
    },
    "webhook": {
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("muster.dev", "reservationledgers"),
        ("events.k8s.io", "events"),
        ("", "secrets"),
    },
}
VERBS = {"watch": ("list", "watch"), "evict": ("delete",)}


def right(verb: str, resource: Resource, subresource: str = "") -> Right:
    return verb, resource.group, f"{resource.plural}/{subresource}" if subresource else resource.plural


@functools.cache
def needed() -> dict[str, set[Right]]:
    """What the code can ask for, by the file of rules that should grant it."""
    found: dict[str, set[Right]] = defaultdict(set)
    for component, folders in CODE.items():
        for call in calls(*folders) - CARRIERS - BY_OTHERS:
            for part, resources in targets(call, component).items():
                verbs = VERBS.get(call.verb, (call.verb,))
                found[part] |= {right(v, r, call.subresource) for v in verbs for r in resources}
    return found


def targets(call: Call, component: str) -> dict[str, tuple[Resource, ...]]:
    """The resources that a call can be about, by part."""
    if call in ELSEWHERE:
        return ELSEWHERE[call]
    found = VARIABLE.get(call)
    if found is None:
        named = getattr(kinds, call.resource, None)
        assert isinstance(named, Resource), f"{call}: which resources can this be? Add it to VARIABLE"
        found = (named,)
    return {PARTS.get(call.file, component): found}


def granted(rules: Iterable[dict[str, Any]]) -> set[Right]:
    return {
        (verb, group, resource)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def rules_of(name: str) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = yaml.load((RULES / f"{name}.yaml").read_text(), yaml.CSafeLoader)["rules"]
    return rules


FILES = sorted(path.stem for path in RULES.glob("*.yaml") if path.stem not in account_rights.FOR_USERS)


def test_every_part_has_its_file_of_rules() -> None:
    assert sorted(needed()) == FILES


@pytest.mark.parametrize("part", FILES)
def test_the_code_may_do_what_it_can_do(part: str) -> None:
    assert needed()[part] - granted(rules_of(part)) == set()


@pytest.mark.parametrize("part", FILES)
def test_nothing_is_allowed_that_the_code_cannot_do(part: str) -> None:
    assert granted(rules_of(part)) - needed()[part] == set()


@pytest.mark.parametrize("part", FILES)
def test_no_right_is_granted_twice(part: str) -> None:
    each = [found for rule in rules_of(part) for found in granted([rule])]
    assert len(each) == len(set(each))


def test_calls_named_in_the_tables_exist_in_the_code() -> None:
    """A table that outlives its call site would hide the next one."""
    present = calls(*(folder for folders in CODE.values() for folder in folders))
    assert {*VARIABLE, *ELSEWHERE, *CARRIERS, *BY_OTHERS} - present == set()
    assert {path for path in PARTS if not (Path(CHART).parents[1] / path).exists()} == set()


# What is rendered


POLICY = "ValidatingAdmissionPolicy"
AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


def roles(case: str, kind: str) -> list[Obj]:
    """The roles of our own accounts."""
    return [role for role in of_kind(objects(case), kind) if not aggregated(role)]


def aggregated(role: Obj) -> set[str]:
    """The roles of Kubernetes that a role is added to."""
    labels = role["metadata"]["labels"]
    return {
        key.removeprefix(AGGREGATE) for key, value in labels.items() if key.startswith(AGGREGATE) and value
    }


@pytest.mark.parametrize("case", CASES)
def test_no_role_reaches_for_more(case: str) -> None:
    rules = [rule for kind in ("ClusterRole", "Role") for role in roles(case, kind) for rule in role["rules"]]
    found = granted(rules)
    assert not {"*"} & {part for each in found for part in each}
    assert not {verb for verb, _, _ in found} & {"escalate", "bind", "impersonate", "deletecollection"}
    assert not {resource for _, _, resource in found} & {"pods/exec", "pods/attach", "serviceaccounts/token"}
    assert not any("nonResourceURLs" in rule for rule in rules)


@pytest.mark.parametrize("case", CASES)
def test_secrets_and_webhook_configurations_are_reached_by_name_alone(case: str) -> None:
    own = {"validatingwebhookconfigurations", "mutatingwebhookconfigurations"}
    for role in roles(case, "ClusterRole"):
        for rule in role["rules"]:
            assert "secrets" not in rule["resources"]
            if own & set(rule["resources"]):
                assert rule["resourceNames"] == [NAME]
    for role in roles(case, "Role"):
        for rule in role["rules"]:
            assert "secrets" not in rule["resources"] or rule["resourceNames"] == [
                "muster-webhook-certificate"
            ]
            # The names of the history's ConfigMaps tell days: a policy limits them.
            history = rule["resources"] == ["configmaps"] and role["metadata"]["name"] == "muster-scheduler"
            assert history or rule["verbs"] == ["create"] or rule["resourceNames"]


def test_the_doctor_s_rights_are_those_of_the_chart() -> None:
    assert account_rights.FILE.read_text() == account_rights.text(), (
        "run `python -m tests.tools.account_rights`"
    )


@pytest.mark.parametrize("case", CASES)
def test_the_doctor_has_nothing_to_say_about_the_chart_s_accounts(case: str) -> None:
    found = objects(case)
    kinds_of_roles = {
        (item["kind"], item["metadata"]["name"]): item for kind in ROLE_KINDS for item in of_kind(found, kind)
    }
    config = load_config(one(found, "ConfigMap", "muster-scheduler")["data"]["config.yaml"])
    asked = set(parts_of_config(config))
    for item in of_kind(found, "ServiceAccount"):
        name = item["metadata"]["name"]
        account = ProgramAccount(name.removeprefix("muster-"), NAMESPACE, name)
        granted = [
            GrantedRight(right, binding["metadata"].get("namespace", ""), f"{role['kind']} {role['name']}")
            for kind in ROLE_KINDS
            for binding in of_kind(found, f"{kind}Binding")
            if applies(binding["subjects"], account, binding["metadata"].get("namespace", ""))
            for role in [binding["roleRef"]]
            for rule in kinds_of_roles[role["kind"], role["name"]]["rules"]
            for right in rights_of(rule)
        ]
        assert check_rights(account, granted, asked) == []
        policies = [list(of_kind(found, kind)) for kind in (POLICY, f"{POLICY}Binding")]
        assert check_policies(account, granted, *policies) == []


def test_the_doctor_knows_every_policy_for_an_account() -> None:
    wanted = yaml.load(chart_account_policies.text(), yaml.CSafeLoader)["policies"]
    assert {policy["name"] for policy in wanted} == set(POLICIES)


def test_policies_for_the_accounts_are_those_of_the_code() -> None:
    assert chart_account_policies.FILE.read_text() == chart_account_policies.text(), (
        "run `python -m tests.tools.chart_account_policies`"
    )


@pytest.mark.parametrize("case", CASES)
def test_policies_hold_for_the_accounts_that_are_bound_to_roles(case: str) -> None:
    """In the namespace where they are."""
    found = objects(case)
    policies = {item["metadata"]["name"]: item["spec"] for item in of_kind(found, POLICY)}
    wanted = yaml.load(chart_account_policies.text(), yaml.CSafeLoader)["policies"]
    exempt = sorted({*EXEMPT_NAMESPACES, *values_of(case).get("webhook", {}).get("exemptNamespaces", ())})
    parts = {role["metadata"]["name"].removeprefix("muster-") for role in roles(case, "ClusterRole")}
    for policy in wanted:
        if "part" in policy and policy["part"] not in parts:
            assert policy["name"] not in policies
            continue
        spec = policies[policy["name"]]
        (account,) = spec["matchConditions"]
        user = f"system:serviceaccount:{NAMESPACE}:{policy['account']}"
        assert account["expression"] == f"request.userInfo.username == '{user}'"
        variables = {item["name"]: item["expression"] for item in spec["variables"]}
        assert variables["home"] == f"'{NAMESPACE}'"
        assert yaml.safe_load(variables["exempt"]) == exempt
        assert spec["failurePolicy"] == "Fail"
        (binding,) = (
            item["spec"]
            for item in of_kind(found, f"{POLICY}Binding")
            if item["metadata"]["name"] == policy["name"]
        )
        assert binding == {"policyName": policy["name"], "validationActions": ["Deny"]}


@pytest.mark.parametrize("account", ["scheduler", "webhook"])
def test_every_right_to_change_objects_of_others_has_a_policy(account: str) -> None:
    """But those that say nothing that anybody relies on but Muster itself."""
    wanted = yaml.load(chart_account_policies.text(), yaml.CSafeLoader)["policies"]
    guarded = {
        (group, resource)
        for policy in wanted
        if policy["account"] == f"muster-{account}"
        for rule in policy["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    writes = {
        (group, resource)
        for part in FILES
        if part.startswith(account)
        for verb, group, resource in granted(rules_of(part))
        if verb in ("create", "update", "patch", "delete")
    }
    assert writes - guarded == UNGUARDED[account]


@pytest.mark.parametrize("case", CASES)
def test_every_role_is_given_to_the_one_account_it_is_for(case: str) -> None:
    found = objects(case)
    accounts = {item["metadata"]["name"] for item in of_kind(found, "ServiceAccount")}
    console = {"muster-console"} if case == "everything" else set()
    assert accounts == {"muster-scheduler", "muster-webhook"} | console
    bound = set()
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        for binding in of_kind(found, kind):
            (subject,) = binding["subjects"]
            role = binding["roleRef"]["name"]
            assert (subject["kind"], subject["namespace"]) == ("ServiceAccount", NAMESPACE)
            assert role.startswith(subject["name"])
            bound.add((binding["roleRef"]["kind"], role))
    defined = {
        (item["kind"], item["metadata"]["name"])
        for kind in ("ClusterRole", "Role")
        for item in roles(case, kind)
    }
    assert bound == defined


@pytest.mark.parametrize(
    ("case", "present"),
    [
        (
            "default",
            {
                *("scheduler", "scheduler-topology"),
                *("webhook", "webhook-owners", "webhook-gang-owners", "webhook-ca-bundle"),
            },
        ),
        (
            "cert-manager",
            {"scheduler", "scheduler-topology", "webhook", "webhook-owners", "webhook-gang-owners"},
        ),
        ("small", {"scheduler", "scheduler-topology", "webhook", "webhook-ca-bundle"}),
        (
            "everything",
            {
                "scheduler",
                "scheduler-topology",
                "scheduler-gang-budgets",
                "scheduler-composite-groups",
                "scheduler-node-metrics",
                "scheduler-load-report",
                "webhook",
                "webhook-owners",
                "webhook-gang-owners",
                "webhook-added-gang-owners",
                "webhook-adoption",
                "webhook-ca-bundle",
                "console",
                "console-composite-groups",
            },
        ),
    ],
)
def test_disabled_parts_have_no_rights(case: str, present: set[str]) -> None:
    assert {role["metadata"]["name"] for role in roles(case, "ClusterRole")} == {
        f"muster-{name}" for name in present
    }


def test_topology_in_named_namespaces_reaches_no_other() -> None:
    found = objects("cert-manager-issuer")
    everywhere = {item["roleRef"]["name"] for item in of_kind(found, "ClusterRoleBinding")}
    assert "muster-scheduler-topology" not in everywhere
    places = {
        item["metadata"]["namespace"]
        for item in of_kind(found, "RoleBinding")
        if item["roleRef"]["name"] == "muster-scheduler-topology"
    }
    assert places == {"team-a", "team-b"}


def test_kinds_whose_annotations_may_be_read_are_a_value() -> None:
    (role,) = (r for r in roles("default", "ClusterRole") if r["metadata"]["name"] == "muster-webhook-owners")
    assert granted(role["rules"]) == {
        ("get", "jobset.x-k8s.io", "jobsets"),
        ("get", "kubeflow.org", "pytorchjobs"),
        ("get", "kubeflow.org", "mpijobs"),
    }


def test_rights_for_gangs_from_owners_come_from_the_table() -> None:
    assert chart_gang_owners.FILE.read_text() == chart_gang_owners.text()


def test_added_kinds_of_owners_may_be_read_and_no_more() -> None:
    name = "muster-webhook-added-gang-owners"
    (role,) = (r for r in roles("everything", "ClusterRole") if r["metadata"]["name"] == name)
    assert granted(role["rules"]) == {("get", "example.com", "ships")}
    (table,) = (
        item
        for item in of_kind(objects("everything"), "ConfigMap")
        if item["metadata"]["name"] == "muster-webhook-gang-owners"
    )
    (entry,) = read_entries(table["data"]["kinds.yaml"], "the chart")
    assert entry.count({"spec": {"mode": "Together", "decks": 4, "crew": 4}}) == 4


def test_users_see_quotas_and_write_groups_only() -> None:
    found = {
        name: (aggregated(role), granted(role["rules"]))
        for role in of_kind(objects("default"), "ClusterRole")
        if aggregated(role) and (name := role["metadata"]["name"])
    }
    groups = ("incubator.scheduling.k8s.io", "podgroups")
    assert set(found) == {"muster-view", "muster-edit"}
    to, rights = found["muster-view"]
    assert to == {"view", "edit", "admin"}
    assert {verb for verb, _, _ in rights} == {"get", "list", "watch"}
    to, rights = found["muster-edit"]
    assert to == {"edit", "admin"}
    assert {tuple(right[1:]) for right in rights} == {groups}
    assert not [role for role in of_kind(objects("small"), "ClusterRole") if aggregated(role)]
