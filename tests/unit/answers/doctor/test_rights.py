"""Rights in force and those that this version needs: what is missing, and what a token could do more."""

from __future__ import annotations

import msgspec
import pytest

from scheduler_core.answers.doctor.rights import (
    OWN_NAMESPACE,
    POLICIES,
    GrantedRight,
    ProgramAccount,
    Right,
    applies,
    check_policies,
    check_rights,
    needed_rights,
    parts_of,
)

HOME = "muster-system"
SCHEDULER = ProgramAccount("scheduler", HOME, "muster-scheduler")
WEBHOOK = ProgramAccount("webhook", HOME, "muster-webhook")
CONSOLE = ProgramAccount("console", HOME, "muster-console")


def granted(*parts: str) -> list[GrantedRight]:
    """The rights of parts, as the chart grants them."""
    return [
        GrantedRight(
            right, HOME if own else "", f"Role muster-{main}" if own else f"ClusterRole muster-{part}"
        )
        for part in parts
        for main, own, _ in [part.partition(OWN_NAMESPACE)]
        for right in needed_rights()[part]
    ]


def without(held: list[GrantedRight], *rights: Right) -> list[GrantedRight]:
    return [item for item in held if item.right not in rights]


MAIN = granted("scheduler", "scheduler-own-namespace")


@pytest.mark.parametrize("account", [SCHEDULER, WEBHOOK, CONSOLE])
def test_what_the_chart_grants_is_neither_too_little_nor_too_much(account: ProgramAccount) -> None:
    assert check_rights(account, granted(*parts_of(account.component))) == []


def test_optional_parts_may_be_left_out_unless_they_are_used() -> None:
    assert check_rights(SCHEDULER, MAIN) == []
    (found,) = check_rights(SCHEDULER, MAIN, {"scheduler-gang-budgets"})
    assert found.severity == "warning"
    assert found.problem.endswith("patch pods: gangs get no PodDisruptionBudget")
    # Those of another program are not its own.
    assert check_rights(SCHEDULER, MAIN, {"webhook-adoption"}) == []


def test_results_on_a_topology_may_be_limited_to_some_namespaces() -> None:
    here = [msgspec.structs.replace(held, namespace="team-a") for held in granted("scheduler-topology")]
    assert check_rights(SCHEDULER, [*MAIN, *here], {"scheduler-topology"}) == []


MISSING = [
    ("pods cannot be bound", Right("create", "", "pods/binding"), "create pods/binding: no pod is placed"),
    ("nobody can be evicted", Right("delete", "", "pods"), "delete pods: nobody is evicted"),
    ("a kind cannot be watched", Right("watch", "", "nodes"), "watch nodes: the scheduler does not start"),
    (
        "a status cannot be written",
        Right("patch", "scheduling.x-k8s.io", "elasticquotas/status"),
        "patch elasticquotas/status.scheduling.x-k8s.io: its status is not written",
    ),
    (
        "the Lease cannot be renewed",
        Right("update", "coordination.k8s.io", "leases", ("muster-scheduler",)),
        "update leases.coordination.k8s.io (muster-scheduler): no scheduler leads",
    ),
]


@pytest.mark.parametrize(("right", "words"), [pytest.param(*row, id=name) for name, *row in MISSING])
def test_a_missing_right_is_an_error_with_its_consequence(right: Right, words: str) -> None:
    (found,) = check_rights(SCHEDULER, without(MAIN, right))
    assert (found.severity, found.subject) == ("error", f"ServiceAccount {HOME}/muster-scheduler")
    assert found.problem == f"may not {words}"


def test_every_right_of_every_part_has_a_consequence() -> None:
    for account in (SCHEDULER, WEBHOOK, CONSOLE):
        for part in parts_of(account.component):
            alone = [right for right in check_rights(account, [], {part}) if "may not" in right.problem]
            assert alone, part


SPARE = [
    ("all pods may be changed", Right("patch", "", "pods"), "error", "may patch pods by ClusterRole more"),
    ("Secrets may be read", Right("get", "", "secrets"), "error", "may get secrets by ClusterRole more"),
    ("other kinds may be read", Right("list", "apps", "deployments"), "warning", "may list deployments.apps"),
    ("everything", Right("*", "*", "*"), "error", "may do everything by ClusterRole more"),
    ("a wildcard is more than a part", Right("get", "", "*"), "error", "may get * by ClusterRole more"),
    (
        "rights of its own namespace hold everywhere",
        Right("delete", "", "configmaps"),
        "error",
        "may delete configmaps",
    ),
    (
        "a name of many",
        Right("update", "coordination.k8s.io", "leases", ("another",)),
        "error",
        "may update leases.coordination.k8s.io (another)",
    ),
]


@pytest.mark.parametrize(
    ("right", "severity", "words"), [pytest.param(*row, id=name) for name, *row in SPARE]
)
def test_a_spare_right_is_what_a_stolen_token_could_do(right: Right, severity: str, words: str) -> None:
    (found,) = check_rights(SCHEDULER, [*MAIN, GrantedRight(right, "", "ClusterRole more")])
    assert found.severity == severity
    assert found.problem.startswith(words)
    assert found.problem.endswith("which this version does not need: so may who has its token")


def test_questions_about_oneself_and_kinds_of_owners_that_values_add_are_no_spare_rights() -> None:
    own = GrantedRight(
        Right("create", "authorization.k8s.io", "selfsubjectaccessreviews"), "", "ClusterRole b"
    )
    owners = GrantedRight(Right("get", "example.com", "ships"), "", "ClusterRole muster-webhook-owners")
    held = [*granted("webhook"), own, owners]
    assert check_rights(WEBHOOK, held) == []
    secrets = GrantedRight(Right("get", "", "secrets"), "", "ClusterRole muster-webhook-owners")
    assert len(check_rights(WEBHOOK, [*held, secrets])) == 1


@pytest.mark.parametrize(
    ("subject", "namespace", "expected"),
    [
        pytest.param(
            {"kind": "ServiceAccount", "namespace": HOME, "name": "muster-scheduler"}, "", True, id="by name"
        ),
        pytest.param({"kind": "ServiceAccount", "name": "muster-scheduler"}, HOME, True, id="beside it"),
        pytest.param({"kind": "ServiceAccount", "name": "muster-scheduler"}, "other", False, id="elsewhere"),
        pytest.param({"kind": "User", "name": SCHEDULER.user}, "", True, id="as a user"),
        pytest.param({"kind": "Group", "name": "system:authenticated"}, "", True, id="everybody"),
        pytest.param(
            {"kind": "Group", "name": f"system:serviceaccounts:{HOME}"}, "", True, id="all of its namespace"
        ),
        pytest.param({"kind": "Group", "name": "system:masters"}, "", False, id="a group of others"),
    ],
)
def test_bindings_reach_an_account_by_name_and_by_groups(
    subject: dict[str, str], namespace: str, expected: bool
) -> None:
    assert applies([subject], SCHEDULER, namespace) is expected


def policies(user: str) -> list[dict[str, object]]:
    condition = {"name": "the-account", "expression": f"request.userInfo.username == '{user}'"}
    return [{"metadata": {"name": name}, "spec": {"matchConditions": [condition]}} for name in POLICIES]


def bindings(*actions: str) -> list[dict[str, object]]:
    return [{"spec": {"policyName": name, "validationActions": list(actions)}} for name in POLICIES]


def test_policies_that_are_not_in_force_are_named_with_what_a_token_can_do() -> None:
    stored = policies(SCHEDULER.user)
    held = granted("scheduler", "scheduler-topology")
    assert check_policies(SCHEDULER, held, stored, bindings("Deny")) == []
    assert check_policies(CONSOLE, granted("console"), [], []) == []
    others = policies("system:serviceaccount:other:muster-scheduler")
    for present, bound in (
        ([], bindings("Deny")),
        (stored, bindings("Audit")),
        (others, bindings("Deny")),
    ):
        (finding,) = check_policies(SCHEDULER, held, present, bound)
        assert finding.severity == "warning"
        assert "muster-scheduler-pods" in finding.problem
        assert "change what any pod runs, also in kube-system" in finding.problem


def test_a_policy_for_a_right_that_the_account_does_not_have_is_not_missed() -> None:
    (finding,) = check_policies(SCHEDULER, granted("scheduler-gang-budgets"), [], [])
    assert finding.problem.startswith("is not limited by muster-scheduler-pods, muster-scheduler-budgets: ")
    everything = GrantedRight(Right("*", "*", "*"), "", "ClusterRole cluster-admin")
    (finding,) = check_policies(WEBHOOK, [everything], [], [])
    assert "muster-adoption" in finding.problem
    assert "muster-webhook-configurations" in finding.problem


# name, a right, another one, whether who has the first has the other one, too
COVERED: list[tuple[str, Right, Right, bool]] = [
    ("the same", Right("get", "", "pods"), Right("get", "", "pods"), True),
    ("another verb", Right("get", "", "pods"), Right("list", "", "pods"), False),
    ("every verb", Right("*", "", "pods"), Right("list", "", "pods"), True),
    ("another group", Right("get", "", "pods"), Right("get", "apps", "pods"), False),
    ("every group", Right("get", "*", "pods"), Right("get", "apps", "pods"), True),
    ("another resource", Right("get", "", "pods"), Right("get", "", "nodes"), False),
    ("every resource", Right("get", "", "*"), Right("get", "", "pods/status"), True),
    ("a subresource", Right("get", "", "pods"), Right("get", "", "pods/status"), False),
    ("that subresource of everything", Right("get", "", "*/status"), Right("get", "", "pods/status"), True),
    (
        "another one of everything",
        Right("get", "", "*/scale"),
        Right("get", "", "pods/status"),
        False,
    ),
    ("no subresource at all", Right("get", "", "*/"), Right("get", "", "pods"), False),
    ("all names", Right("get", "", "pods"), Right("get", "", "pods", ("a",)), True),
    ("some names", Right("get", "", "pods", ("a", "b")), Right("get", "", "pods", ("a",)), True),
    ("other names", Right("get", "", "pods", ("a",)), Right("get", "", "pods", ("a", "b")), False),
    ("some names for all", Right("get", "", "pods", ("a",)), Right("get", "", "pods"), False),
]


@pytest.mark.parametrize(
    ("one", "other", "covers"), [case[1:] for case in COVERED], ids=[case[0] for case in COVERED]
)
def test_which_right_has_another_one(one: Right, other: Right, covers: bool) -> None:
    assert one.covers(other) is covers
