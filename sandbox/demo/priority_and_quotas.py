"""Chapter 6: priority does not preempt across quotas; a guaranteed min does."""

from __future__ import annotations

from typing import Final

from sandbox.demo.player import Player

FILES: Final = "examples/priority-and-quotas"


def priority_stays_within(play: Player) -> None:
    """A pod with high priority waits, and then the owner of a min reclaims it (docs/quota.md)."""
    play.say("web is guaranteed 1 CPU and does not use it. analytics and urgent have no guarantee.")
    play.do(f"kubectl apply -f {FILES}/quotas.yaml -f examples/priority-classes.yaml")
    for namespace in ("analytics", "urgent", "web"):
        play.scheduled_by_muster(namespace)
    play.do(f"kubectl apply -f {FILES}/1-analytics-borrows.yaml")
    play.do("kubectl wait -n analytics --for=condition=Available deployment/nginx --timeout=20s")
    play.look("kubectl elasticquota lending -A", "cpu analytics web 1 1")
    before = play.placed("analytics")
    play.say(
        "The pod of urgent has priority 1000000 and needs to borrow too, but analytics has borrowed the only",
        "idle CPU. Priority counts within one quota only. So the pod waits, although nodes have capacity.",
    )
    play.do(f"kubectl apply -f {FILES}/2-urgent-waits.yaml")
    play.look(
        "kubectl events -n urgent --types=Warning",
        "ElasticQuota urgent/quota: used by all quotas cpu=1 + requested 1 exceeds sum(min)=1",
    )
    play.look("kubectl get pods -n analytics", "1/1 Running")
    play.expect("the pod of analytics was left alone", lambda: play.placed("analytics") == before)
    play.say("The pod of web has no priority, but web is guaranteed the CPU.")
    play.do(f"kubectl apply -f {FILES}/3-web-reclaims.yaml")
    play.do("kubectl wait -n web --for=condition=Available deployment/nginx --timeout=20s")
    play.look(
        "kubectl elasticquota get -A",
        "analytics quota cpu 0 0 2 - 0 0",
        "urgent quota cpu 0 0 2 - 0 0",
        "web quota cpu 1 1 2 - 0 0",
    )
