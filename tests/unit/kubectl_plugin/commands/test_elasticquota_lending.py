"""`kubectl elasticquota lending`, whole, against a small server; and its size with a thousand quotas."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from kubectl_plugin.commands.elasticquota_lending import MOST_LENDERS, document
from kubectl_plugin.inspection.loans import balances, loan_rows
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.lending import Lending
from tests.unit.kubectl_plugin.plugin_api import Api, Command, pod_object, quota_object

GPU = "nvidia.com/gpu"


@pytest.fixture
def cluster(api: Api) -> None:
    """Hand-computed: a uses 7 of 4 (3 over); b leaves 4 of 6 unused, c leaves 2 of 2; d uses its 1.

    3 x 4/6 = 2 from b and 3 x 2/6 = 1 from c.
    """
    api.objects["elasticquotas"] = [
        quota_object("team-a", min={GPU: "4"}, max={GPU: "8"}),
        quota_object("team-b", min={GPU: "6"}, max={GPU: "8"}),
        quota_object("team-c", min={GPU: "2"}, max={GPU: "8"}),
        quota_object("team-d", min={GPU: "1"}, max={GPU: "8"}),
    ]
    api.objects["pods"] = [
        pod_object("team-a", "p", **{GPU: "7"}),
        pod_object("team-b", "p", **{GPU: "2"}),
        pod_object("team-d", "p", **{GPU: "1"}),
    ]


def table(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@pytest.mark.usefixtures("cluster")
def test_loans_are_pro_rata_to_what_is_left_unused(eq: Command) -> None:
    done = eq("lending", "-A")
    assert (done.code, done.err) == (0, "")
    assert table(done.out) == [
        ["RESOURCE", "BORROWER", "LENDER", "AMOUNT", "RECLAIMABLE"],
        [GPU, "team-a", "team-b", "2", "2"],
        [GPU, "team-a", "team-c", "1", "1"],
    ]


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("namespace", "lenders"),
    [("team-a", ["team-b", "team-c"]), ("team-b", ["team-b"]), ("team-c", ["team-c"])],
    ids=["a borrower sees its lenders", "a lender sees its loan", "a small lender too"],
)
def test_a_namespace_sees_the_loans_that_it_takes_or_gives(
    eq: Command, namespace: str, lenders: list[str]
) -> None:
    done = eq("lending", "-n", namespace, "--no-headers")
    assert [row[2] for row in table(done.out)] == lenders


@pytest.mark.usefixtures("cluster")
def test_a_namespace_without_loans_gets_a_message(eq: Command) -> None:
    done = eq("lending", "-n", "team-d")
    assert (done.code, done.out, done.err) == (0, "", "Nothing is borrowed or lent in team-d namespace.\n")


def test_use_without_a_lender_cannot_be_reclaimed(api: Api, eq: Command) -> None:
    api.objects["elasticquotas"] = [
        quota_object("team-a", min={"memory": "1Gi"}),
        quota_object("team-b", min={"memory": "1Gi"}),
    ]
    api.objects["pods"] = [pod_object("team-a", "p", memory="5Gi")]
    assert table(eq("lending", "-A", "--no-headers").out) == [
        ["memory", "team-a", "team-b", "1Gi", "1Gi"],
        ["memory", "team-a", "-", "3Gi", "0"],
    ]


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_json_and_yaml_hold_every_loan(eq: Command, form: str, read: Callable[[str], object]) -> None:
    assert read(eq("lending", "-A", "-o", form).out) == {
        "lending": [
            {
                "resource": GPU,
                "borrowed": [{"namespace": "team-a", "amount": "3", "reclaimable": "3", "share": "0.231"}],
                "lent": [
                    {"namespace": "team-b", "amount": "2"},
                    {"namespace": "team-c", "amount": "1"},
                ],
                "loans": [
                    {"borrower": "team-a", "lender": "team-b", "amount": "2"},
                    {"borrower": "team-a", "lender": "team-c", "amount": "1"},
                ],
            }
        ]
    }


@pytest.mark.usefixtures("cluster")
def test_a_quota_that_cannot_be_read_is_named_and_the_rest_is_shown(api: Api, eq: Command) -> None:
    api.objects["elasticquotas"].append(quota_object("team-e", min={GPU: "-1"}))
    done = eq("lending", "-A", "--no-headers")
    assert (done.code, len(table(done.out))) == (1, 2)
    assert f"ElasticQuota team-e/quota: spec.min[{GPU}]: -1 is negative" in done.err


@pytest.mark.usefixtures("cluster")
def test_without_the_right_to_see_the_cluster_it_fails_in_the_servers_words(api: Api, eq: Command) -> None:
    api.forbidden = {("pods", "")}
    done = eq("lending", "-n", "team-a")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("Error from server (Forbidden): pods is forbidden")


@pytest.mark.usefixtures("cluster")
def test_the_table_is_sorted_by_a_field_with_quantities_by_value(api: Api, eq: Command) -> None:
    api.objects["pods"][0] = pod_object("team-a", "p", **{GPU: "34"})
    amounts = [row[3] for row in table(eq("lending", "-A", "--no-headers", "--sort-by=.amount").out)]
    assert amounts == ["2", "4", "24"]
    lenders = [row[2] for row in table(eq("lending", "-A", "--no-headers", "--sort-by", "{.lender}").out)]
    assert lenders == ["-", "team-b", "team-c"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["-o", "json", "-w"], "-o json cannot be used with --watch."),
        (["-o", "yaml", "--sort-by", ".amount"], "-o yaml cannot be used with --sort-by."),
        (["-w", "--sort-by", ".amount"], "--sort-by cannot be used with --watch."),
    ],
)
def test_flags_that_exclude_each_other_are_refused(eq: Command, flags: list[str], said: str) -> None:
    done = eq("lending", *flags)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


@pytest.mark.usefixtures("cluster")
def test_a_watch_without_rights_ends_in_the_servers_words(api: Api, eq: Command) -> None:
    api.forbidden = {("pods", "")}
    done = eq("lending", "-w")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("Error from server (Forbidden): pods is forbidden")


def quota(namespace: str, cpu: int) -> ElasticQuota:
    return parse_elastic_quota(json.dumps(quota_object(namespace, min={"cpu": str(cpu)})).encode())


def many(borrowers: int, lenders: int) -> Lending:
    """Every borrower uses one CPU for each lender, every lender leaves as much: each pair has a loan."""
    ledger = QuotaLedger()
    for number in range(borrowers):
        ledger.put_quota(quota(f"borrower-{number:04}", 0))
        ledger.charge(f"borrower-{number:04}", "pod", {"cpu": 1000 * lenders})
    for number in range(lenders):
        ledger.put_quota(quota(f"lender-{number:04}", borrowers))
    (found,) = balances(ledger)
    return found


def test_a_thousand_quotas_make_a_table_that_can_be_read_and_a_document_with_all() -> None:
    found = many(30, 40)
    shown = list(loan_rows(found, MOST_LENDERS))
    assert len(shown) == 30 * (MOST_LENDERS + 1)
    assert [*shown[MOST_LENDERS].document().values()] == ["cpu", "borrower-0000", "(30 others)", "30", "30"]
    assert len(list(loan_rows(found, None))) == 30 * 40
    (entry,) = document([found], {})["lending"]
    assert len(entry["loans"]) == 30 * 40
    assert {item["reclaimable"] for item in entry["borrowed"]} == {"40"}


def test_the_example_of_the_quota_document(api: Api, eq: Command) -> None:
    text = (Path(__file__).parents[4] / "docs" / "quota.md").read_text(encoding="utf-8")
    cells = [
        [cell.strip() for cell in line.split("|")[1:4]] for line in text.splitlines() if "| team-" in line
    ]
    api.objects["elasticquotas"] = [quota_object(team, min={GPU: low}) for team, low, _ in cells]
    api.objects["pods"] = [pod_object(team, "p", **{GPU: used}) for team, _, used in cells]
    assert len(cells) == 5
    assert eq("lending", "-A").out in text
