"""Chapter 5: a high priority takes nothing from another quota; a guarantee does."""

from __future__ import annotations

from typing import Final

from sandbox.demo.player import Player

FILES: Final = "examples/priority-and-quotas"


def priority_stays_within(play: Player) -> None:
    """The seed's example of preemption across namespaces, and then the owner's own demand."""
    play.say("web is guaranteed 1 CPU and does not use it; analytics and urgent are guaranteed nothing.")
    play.do(f"kubectl apply -f {FILES}/quotas.yaml -f examples/priority-classes.yaml")
    for namespace in ("analytics", "urgent", "web"):
        play.scheduled_by_muster(namespace)
    play.do(f"kubectl apply -f {FILES}/1-analytics-borrows.yaml")
    play.do("kubectl wait -n analytics --for=condition=Available deployment/nginx --timeout=20s")
    play.look("kubectl elasticquota lending -A", "cpu analytics web 1 1")
    before = play.placed("analytics")
    play.say(
        "urgent has a priority of a million. It would borrow too, and the one CPU to lend is lent:",
        "priority counts within a quota, so it waits, although nodes have room.",
    )
    play.do(f"kubectl apply -f {FILES}/2-urgent-waits.yaml")
    play.look(
        "kubectl events -n urgent --types=Warning",
        "ElasticQuota urgent/quota: used by all quotas cpu=1 + requested 1 exceeds sum(min)=1",
    )
    play.look("kubectl get pods -n analytics", "1/1 Running")
    play.expect("the pod of analytics was left alone", lambda: play.placed("analytics") == before)
    play.say("web has no priority at all, but the CPU is its own.")
    play.do(f"kubectl apply -f {FILES}/3-web-reclaims.yaml")
    play.do("kubectl wait -n web --for=condition=Available deployment/nginx --timeout=20s")
    play.look(
        "kubectl elasticquota get -A",
        "analytics quota cpu 0 0 2 - 0 0",
        "urgent quota cpu 0 0 2 - 0 0",
        "web quota cpu 1 1 2 - 0 0",
    )
