"""Chapter 7: victims on two nodes are evicted together, because those on one node are not enough."""

from __future__ import annotations

from typing import Final

from sandbox.demo.player import Player

FILES: Final = "examples/across-nodes"


def across_nodes(play: Player) -> None:
    """An owner reclaims two CPUs from two nodes; afterwards the borrower gets them again."""
    play.say("owner is guaranteed 2 CPUs, batch none. Only the two small nodes are schedulable.")
    play.do("kubectl cordon gpu-0", "cordoned")
    play.do(f"kubectl apply -f {FILES}/quotas.yaml")
    for namespace in ("batch", "owner"):
        play.scheduled_by_muster(namespace)
    play.do(f"kubectl apply -f {FILES}/1-batch-borrows.yaml")
    play.do("kubectl wait -n batch --for=condition=Available deployment/nginx --timeout=20s")
    play.look(
        "kubectl get pods -A -o custom-columns='NAMESPACE:.metadata.namespace,"
        "NODE:.spec.nodeName,STATUS:.status.phase'",
        "batch cpu-0 Running",
        "batch cpu-1 Running",
    )
    borrowers = play.placed("batch")
    play.say(
        "owner requests 2 CPUs on one node. The eviction of the pod on that node frees the node, but the",
        "quotas would use 1 + 2 CPUs of the 2 guaranteed ones. So the pod on the other node is evicted too.",
    )
    play.do(f"kubectl apply -f {FILES}/2-owner-reclaims.yaml")
    play.do("kubectl wait -n owner --for=condition=Available deployment/nginx --timeout=20s")
    play.look(
        "kubectl get events -n batch --field-selector reason=Preempted",
        *(f"Preempted pod/{name}" for name in borrowers),
    )
    play.look("kubectl elasticquota get -A", "batch quota cpu 0 0 2 - 0 0", "owner quota cpu 2 2 2 - 0 0")
    play.say("When owner has finished, batch borrows the idle CPUs again.")
    play.do("kubectl delete deployment nginx -n owner")
    play.do("kubectl wait -n batch --for=condition=Available deployment/nginx --timeout=20s")
