"""Chapter 12: two nodes that are alike by what was asked of them, and not by what they do."""

from __future__ import annotations

from collections import Counter
from typing import Final

from sandbox.demo.player import Player

FILES: Final = "examples/load-aware"
HOT: Final = "node-hot"
COLD: Final = "node-cold"


def hot_and_cold(play: Player) -> None:
    """Pods go where CPUs are idle, and a burst is counted before anybody could measure it."""
    play.say("Two equal nodes without pods. One is busy all the same, and its NodeMetric tells.")
    play.do(f"kubectl apply --server-side -f {FILES}/nodes.yaml")
    play.do(
        f'sed "s/NOW/$(date -u +%FT%TZ)/" {FILES}/metrics.yaml | '
        "kubectl apply --server-side --subresource=status -f -"
    )
    play.look("kubectl get nodemetrics", f"{COLD} 800m 8Gi", f"{HOT} 4 8Gi")
    play.say("By requests both are empty, by load one is: two pods go there.")
    play.do(f"kubectl apply -f {FILES}/1-two-pods.yaml")
    play.do("kubectl wait --for=condition=Available deployment/first --timeout=20s")
    play.look(_nodes_of("first"), COLD, never=[HOT])
    play.say(
        "Six more at once, before anything is measured again. A placed pod counts with 85 % of its request,",
        "so the cold node gets no more than its share: 0.8 + 6 x 0.85 = 5.9 CPUs there, 4 + 2 x 0.85 = 5.7",
        "on the other.",
    )
    play.do(f"kubectl apply -f {FILES}/2-burst.yaml")
    play.do("kubectl wait --for=condition=Available deployment/burst --timeout=20s")
    said = play.look(_nodes_of("burst"), HOT, COLD)
    play.expect("the burst is spread by load", lambda: Counter(said.split()) >= Counter({COLD: 4, HOT: 2}))


def _nodes_of(app: str) -> str:
    return f"kubectl get pods -l app={app} -o custom-columns='NAME:.metadata.name,NODE:.spec.nodeName'"
