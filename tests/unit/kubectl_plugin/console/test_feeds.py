"""What the console may not list is named once, and in words."""

from __future__ import annotations

import msgspec

from kubectl_plugin.console.cluster.feeds import blind, unread, wanted_feeds


def test_a_kind_of_two_feeds_is_named_once() -> None:
    denied = [msgspec.structs.replace(feed, denied=True) for feed in wanted_feeds(composites=False)]
    names = unread(denied)
    assert names.count("configmaps") == 1
    assert len(names) == len(set(names))
    assert set(blind(denied)) == {"nodes", "elasticquotas.scheduling.x-k8s.io", "pods"}


def test_a_kind_of_one_namespace_is_missing_in_the_others() -> None:
    (pods,) = (feed for feed in wanted_feeds(composites=False) if feed.name == "pods")
    scope = msgspec.structs.replace(pods.scope, namespace="team-a")
    assert unread([pods]) == ()
    assert unread([msgspec.structs.replace(pods, scope=scope)]) == ("pods outside the namespace team-a",)
