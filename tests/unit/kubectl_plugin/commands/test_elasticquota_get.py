"""`kubectl elasticquota get`, whole, against a small server."""

from __future__ import annotations

import json

import pytest
import yaml

from kubectl_plugin.cluster.quota_snapshot import UNKNOWN_HARD, UNKNOWN_LENT, UNKNOWN_RESERVED
from tests.unit.kubectl_plugin.plugin_api import (
    Api,
    Command,
    Done,
    pod_object,
    quota_object,
    resource_quota_object,
)


@pytest.fixture(autouse=True)
def at_new_year(monkeypatch: pytest.MonkeyPatch, kubeconfig: object) -> None:
    """Five minutes after every object of these tests was created."""
    monkeypatch.setattr("kubectl_plugin.commands.elasticquota_get.time.time", lambda: 1767225900.0)


@pytest.fixture
def teams(api: Api) -> Api:
    api.objects["elasticquotas"] = [
        quota_object("team-a", min={"cpu": "4", "memory": "8Gi"}, max={"cpu": "6"}),
        quota_object("team-b", min={"cpu": "4"}, max={"cpu": "6"}),
    ]
    api.objects["elasticquotas"][0]["metadata"]["labels"] = {"tier": "gold", "a": "b"}
    api.objects["pods"] = [
        pod_object("team-a", "p1", cpu="4500m", memory="1536Mi"),
        pod_object("team-a", "p2", node="", phase="Pending", cpu="2"),
        pod_object("team-b", "p1", cpu="1"),
    ]
    api.objects["resourcequotas"] = [resource_quota_object("team-a", requests_cpu="8")]
    return api


def test_the_table_has_a_row_per_quota_and_resource(teams: Api, eq: Command) -> None:
    done = eq("get", "-A")
    assert done.out.splitlines() == [
        "NAMESPACE   NAME    RESOURCE   USED    MIN   MAX   HARD   BORROWED   LENT   AGE",
        "team-a      quota   cpu        4500m   4     6     8      500m       0      5m",
        "team-a      quota   memory     1.5Gi   8Gi   -     -      0          0      5m",
        "team-b      quota   cpu        1       4     6     -      0          500m   5m",
    ]
    assert (done.code, done.err) == (0, "")


def test_all_quotas_cost_four_lists_and_the_version_and_finished_pods_are_not_sent(
    teams: Api, eq: Command
) -> None:
    eq("get", "-A")
    assert [path for path, _ in teams.requests] == [
        "/apis/scheduling.x-k8s.io/v1alpha1/elasticquotas",
        "/api/v1/pods",
        "/api/v1/resourcequotas",
        "/apis/muster.dev/v1alpha1/quotagroups",
        "/version",
    ]
    assert teams.requests[1][1]["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"


def test_one_namespace_shows_what_it_lends_to_others(teams: Api, eq: Command) -> None:
    done = eq("get", "-n", "team-b")
    assert done.out.splitlines()[1].split() == ["quota", "cpu", "1", "4", "6", "-", "0", "500m", "5m"]


def test_wide_adds_what_can_be_taken_back_and_what_waits(teams: Api, eq: Command) -> None:
    lines = eq("get", "-o", "wide", "--no-headers").out.splitlines()
    figures = [
        "quota",
        "cpu",
        "4500m",
        "4",
        "6",
        "8",
        "500m",
        "0",
        "0",
        "500m",
        "2",
        "1",
        "0.062",
        "6",
        "0",
        "-",
        "-",
        "-",
        "5m",
    ]
    assert lines[0].split() == figures


def reserved(done: Done) -> str:
    """The RESERVED column of the first row."""
    header, row = done.out.splitlines()[:2]
    return row.split()[header.split().index("RESERVED")]


def test_wide_shows_what_groups_have_reserved(teams: Api, eq: Command) -> None:
    meta = {"namespace": "team-a", "name": "reservations", "uid": "r", "resourceVersion": "1"}
    teams.objects["reservationledgers"] = [{"metadata": meta, "status": {"held": {"cpu": "1500m"}}}]
    assert reserved(eq("get", "-o", "wide")) == "1500m"

    teams.unknown = {"reservationledgers"}
    assert reserved(eq("get", "-o", "wide")) == "0"

    teams.unknown, teams.forbidden = set(), {("reservationledgers", "team-a")}
    done = eq("get", "-o", "wide")
    assert (reserved(done), done.err) == ("?", f"{UNKNOWN_RESERVED}\n")


def test_without_a_namespace_flag_the_contexts_namespace_is_meant(teams: Api, eq: Command) -> None:
    assert eq("get", "-o", "name").out == "elasticquota.scheduling.x-k8s.io/quota\n"
    assert teams.requests[0][0] == "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/team-a/elasticquotas"


def test_labels_and_selectors(teams: Api, eq: Command) -> None:
    done = eq("get", "-l", "tier=gold", "--field-selector=metadata.name=quota", "--show-labels")
    assert teams.requests[0][1]["labelSelector"] == "tier=gold"
    assert teams.requests[0][1]["fieldSelector"] == "metadata.name=quota"
    assert "labelSelector" not in teams.requests[1][1], "lending is a matter of all quotas"
    assert done.out.splitlines()[1].endswith("5m    a=b,tier=gold")


def test_without_the_right_to_list_the_cluster_lent_is_unknown_and_says_so(teams: Api, eq: Command) -> None:
    teams.forbidden = {("elasticquotas", ""), ("pods", "")}
    done = eq("get")
    assert done.code == 0
    assert done.out.splitlines()[1].split() == ["quota", "cpu", "4500m", "4", "6", "8", "500m", "?", "5m"]
    assert done.err == f"{UNKNOWN_LENT}\n"


def test_without_the_right_to_list_native_quotas_hard_is_unknown_and_says_so(teams: Api, eq: Command) -> None:
    teams.forbidden = {("resourcequotas", "team-a")}
    done = eq("get")
    assert done.out.splitlines()[1].split()[5] == "?"
    assert done.err == f"{UNKNOWN_HARD}\n"


def test_all_namespaces_without_the_right_is_the_servers_error(teams: Api, eq: Command) -> None:
    teams.forbidden = {("elasticquotas", "")}
    done = eq("get", "-A")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        'Error from server (Forbidden): elasticquotas is forbidden: User "me" cannot list elasticquotas\n'
    )


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["-n", "empty"], "No resources found in empty namespace.\n"),
        ([], "No resources found in team-a namespace.\n"),
        (["-A"], "No resources found\n"),
    ],
)
def test_nothing_found_is_said_on_stderr_and_is_no_failure(
    api: Api, eq: Command, flags: list[str], text: str
) -> None:
    done = eq("get", *flags)
    assert (done.code, done.out, done.err) == (0, "", text)
    assert len(api.requests) == 1, "with nothing to show, nothing more is read"


def test_a_name_that_does_not_exist_fails_in_kubectls_words_and_the_others_are_shown(
    teams: Api, eq: Command
) -> None:
    done = eq("get", "quota", "x")
    assert done.code == 1
    assert done.err == 'Error from server (NotFound): elasticquotas.scheduling.x-k8s.io "x" not found\n'
    assert done.out.splitlines()[1].startswith("quota   cpu")


def test_a_missing_name_can_be_ignored(teams: Api, eq: Command) -> None:
    for form in ("table", "json"):
        done = eq("get", "x", "--ignore-not-found", "-o", form)
        assert (done.code, done.out, done.err) == (0, "", "")


def test_a_server_without_the_crd_says_which_is_missing(api: Api, eq: Command) -> None:
    api.unknown = {"elasticquotas"}
    done = eq("get", "-A")
    assert done.code == 1
    assert done.err == (
        "error: the server doesn't have a resource type 'elasticquotas'; "
        "is the CRD elasticquotas.scheduling.x-k8s.io installed?\n"
    )


def test_json_is_the_object_alone_for_a_name_and_a_list_otherwise(teams: Api, eq: Command) -> None:
    teams.objects["elasticquotas"][0]["metadata"]["managedFields"] = [{"manager": "x"}]
    one = json.loads(eq("get", "quota", "-o", "json").out)
    assert one["kind"] == "ElasticQuota"
    assert "managedFields" not in one["metadata"]
    kept = json.loads(eq("get", "quota", "-o", "json", "--show-managed-fields").out)
    assert kept == teams.objects["elasticquotas"][0]
    many = json.loads(eq("get", "-A", "-o", "json").out)
    assert (many["kind"], many["apiVersion"], len(many["items"])) == ("List", "v1", 2)


def test_structured_output_needs_no_pods_and_has_no_colour(teams: Api, eq: Command) -> None:
    done = eq("get", "-A", "-o", "yaml", "--color=always")
    assert "\x1b" not in done.out
    assert [path.rpartition("/")[2] for path, _ in teams.requests] == ["elasticquotas"]
    assert yaml.safe_load(done.out)["items"][1]["spec"] == {"min": {"cpu": "4"}, "max": {"cpu": "6"}}


def test_sort_by_a_field_compares_quantities_by_value(teams: Api, eq: Command) -> None:
    teams.objects["elasticquotas"][0]["spec"] = {"min": {"cpu": "10"}}
    teams.objects["elasticquotas"][1]["spec"] = {"min": {"cpu": "9500m"}}
    lines = eq("get", "-A", "--sort-by=.spec.min.cpu", "--no-headers").out.splitlines()
    assert [line.split()[0] for line in lines] == ["team-b", "team-a"]


def test_templates_and_columns(teams: Api, eq: Command) -> None:
    template = '{range .items[*]}{.metadata.namespace}{"\\t"}{.spec.min.cpu}{"\\n"}{end}'
    assert eq("get", "-A", "-o", f"jsonpath={template}").out == "team-a\t4\nteam-b\t4\n"
    columns = "NS:.metadata.namespace,MEMORY:.spec.min.memory"
    assert eq("get", "-A", "-o", f"custom-columns={columns}").out.splitlines() == [
        "NS       MEMORY",
        "team-a   8Gi",
        "team-b   <none>",
    ]


def test_a_quota_that_cannot_be_read_is_named_with_its_field_and_the_others_are_shown(
    teams: Api, eq: Command
) -> None:
    teams.objects["elasticquotas"].append(quota_object("team-c", min={"cpu": "abc"}))
    done = eq("get", "-A")
    assert done.code == 1
    assert done.err == (
        "error: ElasticQuota team-c/quota: spec.min[cpu]: 'abc' is not a quantity such as 500m, 4 or 1.5Gi\n"
    )
    assert len(done.out.splitlines()) == 4


def test_a_second_quota_of_a_namespace_is_pointed_out(teams: Api, eq: Command) -> None:
    younger = quota_object("team-a", "younger", min={"cpu": "1"})
    younger["metadata"]["creationTimestamp"] = "2026-01-01T00:01:00Z"
    teams.objects["elasticquotas"].append(younger)
    done = eq("get", "younger")
    assert done.err == "note: ElasticQuota team-a/younger does not bind: team-a/quota is older\n"
    assert done.out.splitlines()[1].split()[5:8] == ["8", "-", "-"]


UNENFORCED = [
    pytest.param(None, "no scheduler has reported that it enforces it", id="nobody said so"),
    pytest.param(("NoPlugin", "no profile has it"), "no profile has it", id="no profile holds pods to it"),
    pytest.param(("Oldest", "fine"), "", id="it is"),
]


@pytest.mark.parametrize(("condition", "lacks"), UNENFORCED)
def test_a_quota_that_no_scheduler_enforces_is_pointed_out(
    api: Api, eq: Command, condition: tuple[str, str] | None, lacks: str
) -> None:
    quota = quota_object("team-a", min={"cpu": "1"})
    quota["status"] = {}
    if condition is not None:
        status = "True" if condition[0] == "Oldest" else "False"
        told = {"type": "Enforced", "status": status, "reason": condition[0], "message": condition[1]}
        quota["status"] = {"conditions": [told]}
    api.objects["elasticquotas"] = [quota]
    done = eq("get")
    assert done.err == (f"note: ElasticQuota team-a/quota is not enforced: {lacks}\n" if lacks else "")
    assert done.code == 0


def test_every_resource_of_min_or_max_has_a_row_also_where_nothing_uses_it(api: Api, eq: Command) -> None:
    limits = {"min": {"cpu": "8", "nvidia.com/gpu": "2"}, "max": {"cpu": "8", "memory": "1Gi"}}
    api.objects["elasticquotas"] = [quota_object("team-a", **limits)]
    api.objects["pods"] = []
    done = eq("get")
    header, *rows = done.out.splitlines()
    place = {name: header.split().index(name) for name in ("RESOURCE", "USED", "MIN", "MAX")}
    assert [[row.split()[place[name]] for name in place] for row in rows] == [
        ["cpu", "0", "8", "8"],
        ["memory", "0", "0", "1Gi"],
        ["nvidia.com/gpu", "0", "2", "-"],
    ]


def test_colour_marks_who_borrows_and_who_is_at_the_limit(teams: Api, eq: Command) -> None:
    teams.objects["pods"].append(pod_object("team-a", "p9", cpu="1500m"))
    done = eq("get", "--color=always")
    assert "\x1b[31m6\x1b[0m" in done.out
    assert "\x1b[33m2\x1b[0m" in done.out
    assert "\x1b" not in eq("get").out, "the output is not a terminal"


def test_names_cannot_drive_the_terminal(teams: Api, eq: Command) -> None:
    teams.objects["elasticquotas"][0]["metadata"]["labels"] = {"a": "x\x1b[2J"}
    done = eq("get", "--show-labels")
    assert "\x1b" not in done.out
    assert "a=x\\x1b[2J" in done.out


@pytest.mark.parametrize("flags", [["-L", "tier,team"], ["-L=tier", "--label-columns", "team"]])
def test_chosen_labels_have_columns(teams: Api, eq: Command, flags: list[str]) -> None:
    teams.objects["elasticquotas"][0]["metadata"]["labels"] = {"tier": "gold"}
    lines = [line.split("   ") for line in eq("get", *flags).out.splitlines()]
    assert [cell.strip() for cell in lines[0][-2:]] == ["TIER", "TEAM"]
    assert [cell.strip() for cell in lines[1][-2:]] == ["gold", ""]


def column(done: Done, name: str) -> list[str]:
    header, *rows = (line.split() for line in done.out.splitlines())
    return [row[header.index(name)] for row in rows]


def test_use_above_max_has_a_column_of_its_own(teams: Api, eq: Command) -> None:
    teams.objects["pods"].append(pod_object("team-a", "past", cpu="3"))
    done = eq("get", "-A", "-o", "wide")
    assert column(done, "ABOVEMAX") == ["1500m", "-", "0"]
    assert column(done, "USED")[0] == "7500m"


def test_wide_shows_what_was_last_taken_back(teams: Api, eq: Command) -> None:
    told = {"time": "2026-01-01T00:03:00Z", "byQuota": "b/q", "by": "PodGroup b/g", "pods": 3}
    teams.objects["elasticquotas"][0]["status"] = {"lastReclaim": {**told, "resources": {"cpu": "1500m"}}}
    rows = eq("get", "-A", "-o", "wide", "--no-headers").out.splitlines()
    text = "1500m for PodGroup b/g at 2026-01-01T00:03:00Z"
    assert [text in row for row in rows] == [True, False, False]
    assert json.loads(eq("get", "quota", "-o", "json").out)["status"]["lastReclaim"]["pods"] == 3


def test_a_pod_that_was_charged_at_its_creation_counts_and_waits(teams: Api, eq: Command) -> None:
    charged = pod_object("team-b", "other", node="", phase="Pending", cpu="2")
    charged["metadata"]["annotations"] = {"muster.dev/charged": "true"}
    teams.objects["pods"].append(charged)
    done = eq("get", "-A", "-o", "wide")
    assert (column(done, "USED")[-1], column(done, "PENDING")[-1]) == ("3", "2")
    assert eq("get", "-A").out.splitlines()[-1].split()[3] == "3", "without -o wide as well"
