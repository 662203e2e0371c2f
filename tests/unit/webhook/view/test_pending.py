"""Quotas that were admitted a moment ago: remembered until something shows what became of them."""

from __future__ import annotations

import pytest

from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from tests.support.builders import make_quota
from tests.support.kept import reached
from webhook.view.pending import AdmittedQuotas


def pending(*entries: tuple[str, str]) -> AdmittedQuotas[ElasticQuota]:
    """Admitted at 0, for 10 seconds: (namespace/name, the version that was replaced)."""
    out: AdmittedQuotas[ElasticQuota] = AdmittedQuotas(10.0)
    for key, base in entries:
        out.add(make_quota(key).obj(), base, 0.0)
    return out


def keys(out: AdmittedQuotas[ElasticQuota], now: float = 1.0) -> list[str]:
    return [quota.key for quota in out.quotas(now)]


def test_a_write_that_failed_is_forgotten_in_time() -> None:
    out = pending(("a/q", ""))
    assert (keys(out, 9.9), keys(out, 10.0)) == (["a/q"], [])
    out.add(make_quota("b/q").obj(), "", 11.0)
    kept = sum(isinstance(item, ElasticQuota) for item in reached(out))
    assert (keys(out, 12.0), kept) == (["b/q"], 1), "nothing piles up"


@pytest.mark.parametrize(
    ("base", "seen", "left"),
    [
        pytest.param("", ("a", "q", "1"), [], id="a new one is there"),
        pytest.param("", ("a", "other", "1"), ["a/q"], id="another of its namespace"),
        pytest.param("", ("b", "q", "1"), ["a/q"], id="its name in another namespace"),
        pytest.param("9", ("a", "q", "10"), [], id="a change is there"),
        pytest.param("9", ("a", "q", "9"), ["a/q"], id="what it replaced"),
        pytest.param("10", ("a", "q", "9"), ["a/q"], id="something older"),
    ],
)
def test_an_object_in_the_watch_settles_entries_of_older_versions(
    base: str, seen: tuple[str, str, str], left: list[str]
) -> None:
    out = pending(("a/q", base))
    out.seen(*seen)
    assert keys(out) == left


def test_a_name_that_the_server_makes_is_settled_by_any_quota_of_the_namespace() -> None:
    out = pending(("a/", ""), ("b/", ""))
    out.seen("a", "generated-x7", "5")
    assert keys(out) == ["b/"]


@pytest.mark.parametrize(
    ("base", "gone", "left"),
    [
        pytest.param("9", ("a", "q"), [], id="a change of what is deleted is void"),
        pytest.param("", ("a", "q"), ["a/q"], id="a new one may be on its way"),
        pytest.param("9", ("a", "other"), ["a/q"], id="another name"),
        pytest.param("9", ("b", "q"), ["a/q"], id="another namespace"),
    ],
)
def test_a_deletion_voids_changes(base: str, gone: tuple[str, str], left: list[str]) -> None:
    out = pending(("a/q", base))
    out.gone(*gone)
    assert keys(out) == left
