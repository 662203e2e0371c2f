"""The history page over days that a test makes up: what it shows, refuses, and does not know."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from flask.testing import FlaskClient

from kubectl_plugin.cluster.quota_history import PriceList
from kubectl_plugin.console.access.viewer import Viewer
from kubectl_plugin.console.cluster.history_reader import Gap
from scheduler_core.answers.history import Reclaim
from scheduler_core.model.names import PRICE_ANNOTATION
from scheduler_core.model.quotas.quota_history import QuotaHistoryDay, day_of
from tests.support.builders import make_quota
from tests.support.console_scene import NOW, Scene

HOUR = 3600
OUTAGE = Gap("the history cannot be read now: refused", "outage", of_use=True)
DENIED = Gap("it needs the right to list configmaps there", "right", of_use=True)
DAMAGED = Gap("ConfigMap muster-system/muster-history-2027-01-14: data: odd", "damage", of_use=True)


def hours(used: int, borrowed: int = 0) -> dict[str, list[int]]:
    """The first hour of a day, with these amounts in use."""
    return {"measured": [HOUR], "used": [used * HOUR], "borrowed": [borrowed * HOUR]}


def measured() -> QuotaHistoryDay:
    """The day before NOW."""
    quotas = {
        "team-a": {"cpu": hours(3000, 1000), "nvidia.com/gpu": hours(8, 4)},
        "team-b": {
            "cpu": hours(1000),
            "flavor.muster.dev/a100": hours(0),
            "nvidia.com/gpu": hours(2),
        },
    }
    return QuotaHistoryDay(day_of(NOW) - timedelta(days=1), quotas=quotas)


@pytest.fixture
def scene() -> Scene:
    found = Scene([make_quota(f"{name}/quota").min(cpu=1).dict() for name in ("team-a", "team-b")])
    found.history.days = (measured(),)
    return found


@pytest.fixture
def client(scene: Scene) -> Iterator[FlaskClient]:
    with scene.as_viewer(Viewer("")) as found:
        yield found


def rows(client: FlaskClient, query: str = "") -> list[dict[str, Any]]:
    """The rows of the document."""
    found: list[dict[str, Any]] = client.get(f"/history?format=json{query}").get_json()["use"]["rows"]
    return found


def table(client: FlaskClient, query: str = "") -> list[dict[str, str]]:
    """The rows of the CSV."""
    return list(csv.DictReader(io.StringIO(client.get(f"/history?format=csv{query}").text)))


# What cannot be read


@pytest.mark.parametrize(("gap", "status"), [(OUTAGE, 503), (DENIED, 403), (DAMAGED, 500)])
@pytest.mark.parametrize("days", [(), (measured(),)])
def test_csv_is_refused_where_sums_are_missing(
    scene: Scene, client: FlaskClient, gap: Gap, status: int, days: tuple[QuotaHistoryDay, ...]
) -> None:
    """A table cannot say what it lacks: it would be taken for zero."""
    scene.history.days, scene.history.gaps = days, (gap,)
    reply = client.get("/history?format=csv")
    assert (reply.status_code, reply.text) == (status, f"{gap.problem}\n")
    assert reply.content_type == "text/plain; charset=utf-8"


def test_a_refused_csv_does_not_tell_what_the_page_shows_instead(scene: Scene, client: FlaskClient) -> None:
    stale = Gap("the history is shown as it was read at noon", "outage", of_use=True, stale=True)
    scene.history.gaps = (OUTAGE, stale)
    assert client.get("/history?format=csv").text == f"{OUTAGE.problem}\n"
    assert stale.problem in client.get("/history").text


def test_json_tells_what_is_missing(scene: Scene, client: FlaskClient) -> None:
    assert client.get("/history?format=json").get_json()["lacks"] == []
    scene.history.days, scene.history.gaps, scene.history.minute = (), (OUTAGE,), 1
    reply = client.get("/history?format=json")
    document = reply.get_json()
    assert (reply.status_code, document["use"]["rows"], document["lacks"]) == (200, [], [OUTAGE.problem])


def test_the_page_says_that_something_is_not_known(scene: Scene, client: FlaskClient) -> None:
    scene.history.days = ()
    page = client.get("/history").text
    assert "Nothing was measured" in page
    assert "Nothing was taken back" in page
    scene.history.gaps, scene.history.minute = (DENIED,), 1
    page = client.get("/history").text
    assert DENIED.problem in page
    assert page.count("Not known.") == 2
    assert "Nothing was" not in page


def test_reclaims_that_cannot_be_read_do_not_hide_use(scene: Scene, client: FlaskClient) -> None:
    scene.history.gaps = (Gap("what was taken back cannot be read now: refused", "outage"),)
    assert len(table(client)) == len(rows(client)) == 5
    page = client.get("/history").text
    assert page.count("Not known.") == 1
    assert "Nothing was taken back" not in page


def test_a_failure_is_not_kept_as_an_answer(scene: Scene, client: FlaskClient) -> None:
    scene.history.days, scene.history.gaps = (), (OUTAGE,)
    assert "Not known." in client.get("/history").text
    scene.history.days, scene.history.gaps = (measured(),), ()
    assert "Not known." not in client.get("/history").text


# Prices of a file


PRICES = PriceList({"cpu": Fraction("0.5"), "nvidia.com/gpu": Fraction(2), "GPU": Fraction(1)}, "EUR")


def test_prices_of_a_file_are_for_quotas_without_their_own(scene: Scene) -> None:
    own = make_quota("team-b/quota").min(cpu=1).dict()
    own["metadata"]["annotations"] = {PRICE_ANNOTATION: "cpu=7"}
    scene.watch.put(own)
    scene.services = replace(scene.services, prices=PRICES)
    with scene.as_viewer(Viewer("")) as client:
        costs = {(row["namespace"], row["resource"]): row["cost"] for row in table(client)}
        assert costs == {
            ("team-a", "cpu"): "1.5",
            ("team-a", "nvidia.com/gpu"): "16",
            ("team-b", "cpu"): "7",
            ("team-b", "flavor.muster.dev/a100"): "",
            ("team-b", "nvidia.com/gpu"): "4",
        }
        document = client.get("/history?format=json").get_json()
        assert document["use"]["currency"] == "EUR"
        page = client.get("/history").text
        assert "Cost (EUR)" in page
        # A price of nothing is a typo more often than not.
        unused = "no quota was measured with the resources of these prices: GPU"
        assert document["lacks"] == [unused]
        assert unused in page
    # A tenant does not see all resources that there are.
    with scene.as_viewer(Viewer("bert", frozenset({"team-b"}))) as client:
        document = client.get("/history?format=json").get_json()
        assert (document["lacks"], document["use"]["rows"][0]["cost"]) == ([], "7")


def test_of_two_quotas_in_a_namespace_the_oldest_has_the_price(scene: Scene, client: FlaskClient) -> None:
    for name, day, price in (("new", 2, 9), ("old", 1, 3), ("newest", 3, 8)):
        quota = make_quota(f"team-a/{name}").min(cpu=1).dict()
        quota["metadata"]["annotations"] = {PRICE_ANNOTATION: f"cpu={price}"}
        quota["metadata"]["creationTimestamp"] = f"2027-01-0{day}T00:00:00Z"
        scene.watch.put(quota)
    assert rows(client)[0]["price"] == "3"


# What is chosen


def charted(client: FlaskClient, query: str = "") -> str:
    """The quota and the resource of the chart; empty without one."""
    found = re.search(r'aria-label="([^"]*): use per hour', client.get(f"/history?{query}").text)
    return found[1] if found else ""


def selected(client: FlaskClient, query: str = "") -> set[str]:
    """The options that the form has chosen."""
    return set(re.findall(r"<option[^>]* selected>([^<]*)<", client.get(f"/history?{query}").text))


def test_the_chart_is_of_the_largest_borrower_of_what_is_chosen(client: FlaskClient) -> None:
    assert charted(client) == "team-a, nvidia.com/gpu"
    # Not of the flavor, which nobody used, nor of a part of the devices.
    assert charted(client, "namespace=team-b") == "team-b, nvidia.com/gpu"
    assert charted(client, "resource=cpu") == "team-a, cpu"
    assert charted(client, "namespace=team-b&resource=flavor.muster.dev/a100") == (
        "team-b, flavor.muster.dev/a100"
    )


def test_a_flavor_says_less_than_all_devices(scene: Scene, client: FlaskClient) -> None:
    quotas = {"team-b": {"flavor.muster.dev/a100": hours(2), "nvidia.com/gpu": hours(2)}}
    scene.history.days = (msgspec.structs.replace(measured(), quotas=quotas),)
    assert charted(client) == "team-b, nvidia.com/gpu"


def test_the_chart_counts_all_days(scene: Scene, client: FlaskClient) -> None:
    today = QuotaHistoryDay(
        day_of(NOW), quotas={"team-b": {"cpu": hours(9000, 500)}, "team-a": {"cpu": hours(1)}}
    )
    scene.history.days = (measured(), today)
    for by in ("team", "day"):
        assert charted(client, f"resource=cpu&by={by}") == "team-a, cpu"


def test_what_the_page_chose_itself_is_no_choice_for_the_next_time(client: FlaskClient) -> None:
    assert selected(client) == {"7 days"}
    assert selected(client, "namespace=team-b&by=day") == {"7 days", "team-b", "per day and team"}
    assert selected(client, "resource=cpu") == {"7 days", "cpu"}


def test_the_choice_narrows_table_csv_and_json(scene: Scene, client: FlaskClient) -> None:
    scene.history.reclaims = tuple(
        Reclaim(NOW, "reclaim", name, f"{name}/quota", "c/quota", "Pod c/p", {}, ("p",), 1)
        for name in ("team-a", "team-b")
    )
    for query, count in (("namespace=team-b", 3), ("resource=cpu", 2), ("namespace=team-b&resource=cpu", 1)):
        assert len(table(client, f"&{query}")) == len(rows(client, f"&{query}")) == count
        page = client.get(f"/history?{query}").text
        hours_table = page.partition('id="hours"')[2].partition("</section>")[0]
        assert hours_table.count('<tr role="row">') == 1 + count
        # The links lead to what is shown.
        for link in re.findall(r'href="(\?[^"]*format=csv)"', page):
            assert len(table(client, "&" + link[1:].replace("&amp;", "&"))) == count
    taken = client.get("/history?format=json&namespace=team-b").get_json()["history"]
    assert [item["namespace"] for item in taken] == ["team-b"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("namespace=nope", "nope has no history in this time."),
        ("namespace=team-a&resource=gpu", "team-a, gpu has no history in this time."),
        ("namespace=%3Cb%3E", "&lt;b&gt; has no history in this time."),
    ],
)
def test_what_has_no_history_is_named(scene: Scene, client: FlaskClient, query: str, words: str) -> None:
    page = client.get(f"/history?{query}").text
    assert words in page
    assert charted(client, query) == ""
    assert "Nothing was taken back from " in page
    # The form keeps the choice.
    assert words.partition(" has")[0].partition(",")[0] in selected(client, query)
    scene.history.gaps, scene.history.minute = (OUTAGE,), 1
    assert "has no history" not in client.get(f"/history?{query}").text


@pytest.mark.parametrize("query", ["since=9d", "by=week", "by="])
@pytest.mark.parametrize("form", ["", "json", "csv"])
def test_choices_that_are_not_known_are_refused(client: FlaskClient, query: str, form: str) -> None:
    reply = client.get(f"/history?{query}&format={form}")
    assert reply.status_code == 400
    assert "is not known; known are" in reply.text
