"""Chapter 13: two nodes with equal requests and different load."""

from __future__ import annotations

from collections import Counter
from typing import Final

from sandbox.demo.player import Player

FILES: Final = "examples/load-aware"
HOT: Final = "node-hot"
COLD: Final = "node-cold"


def hot_and_cold(play: Player) -> None:
    """Pods go to the node with idle CPUs; a burst of pods is counted before its load is measured."""
    play.say("Two equal nodes have no pods. Other work keeps one of them busy, which its NodeMetric shows.")
    play.do(f"kubectl apply --server-side -f {FILES}/nodes.yaml")
    play.do(
        f'sed "s/NOW/$(date -u +%FT%TZ)/" {FILES}/metrics.yaml | '
        "kubectl apply --server-side --subresource=status -f -"
    )
    play.look("kubectl get nodemetrics", f"{COLD} 800m 8Gi", f"{HOT} 4 8Gi")
    play.say("Both nodes have no requests, but only one has no load. Two pods go to that node.")
    play.do(f"kubectl apply -f {FILES}/1-two-pods.yaml")
    play.do("kubectl wait --for=condition=Available deployment/first --timeout=20s")
    play.look(_nodes_of("first"), COLD, never=[HOT])
    play.say(
        "Six more pods arrive before the next measurement. A placed pod counts with 85 % of its request, so",
        "the pods are spread: 0.8 + 6 x 0.85 = 5.9 CPUs on the cold node, 4 + 2 x 0.85 = 5.7 CPUs on the",
        "hot node.",
    )
    play.do(f"kubectl apply -f {FILES}/2-burst.yaml")
    play.do("kubectl wait --for=condition=Available deployment/burst --timeout=20s")
    spread = {"the burst is spread by load": lambda said: Counter(said.split()) >= Counter({COLD: 4, HOT: 2})}
    play.look(_nodes_of("burst"), HOT, COLD, facts=spread)


def _nodes_of(app: str) -> str:
    return f"kubectl get pods -l app={app} -o custom-columns='NAME:.metadata.name,NODE:.spec.nodeName'"
