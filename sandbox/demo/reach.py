"""Chapter 6: two borrowed CPUs on two nodes go at once, because one node alone would not be enough."""

from __future__ import annotations

from typing import Final

from sandbox.demo.player import Player

FILES: Final = "examples/across-nodes"


def across_nodes(play: Player) -> None:
    """The seed's limitation, lifted; in the end the borrower has its CPUs again."""
    play.say("owner is guaranteed 2 CPUs, batch nothing. Only the two small nodes take part.")
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
        "owner asks for both CPUs on one node. Whichever node it gets: evicting the pod there frees the",
        "node, but leaves 1 + 2 used of 2 guaranteed. So the pod on the other node has to go as well.",
    )
    play.do(f"kubectl apply -f {FILES}/2-owner-reclaims.yaml")
    play.do("kubectl wait -n owner --for=condition=Available deployment/nginx --timeout=20s")
    play.look(
        "kubectl get events -n batch --field-selector reason=Preempted",
        *(f"Preempted pod/{name}" for name in borrowers),
    )
    play.look("kubectl elasticquota get -A", "batch quota cpu 0 0 2 - 0 0", "owner quota cpu 2 2 2 - 0 0")
    play.say("When owner is done, what it leaves idle is lent again.")
    play.do("kubectl delete deployment nginx -n owner")
    play.do("kubectl wait -n batch --for=condition=Available deployment/nginx --timeout=20s")
