"""Chapter 17: two teams that borrow come to equal shares, whoever came first."""

from __future__ import annotations

from typing import Final

from sandbox.demo.player import Player

FILES: Final = "examples/fair-shares"
_CARD: Final = "example.com/card"
_GET: Final = "kubectl elasticquota get -A"


def fair_shares(play: Player) -> None:
    """The first comer borrows all that is idle; the second one takes half of it by fair moves."""
    play.say("Ten cards. astro and bio are guaranteed 2 each; a third team, which is idle, is guaranteed 6.")
    play.do(f"kubectl apply --server-side -f {FILES}/nodes.yaml")
    play.do(f"kubectl apply -f {FILES}/quotas.yaml")
    for namespace in ("astro", "bio"):
        play.scheduled_by_muster(namespace)
    play.say("astro comes first and asks for all ten cards. It borrows eight of them.")
    play.do(f"kubectl apply -f {FILES}/1-astro-borrows.yaml")
    play.look(_GET, f"astro quota {_CARD} 10 2 10 - 8 0", f"idle quota {_CARD} 0 6 10 - 0 6")
    play.say(
        "bio asks for six. Two are guaranteed to it: it takes them back. The other four it has to borrow.",
        "A quota that borrows less may take from one that borrows more, until both borrow alike:",
    )
    play.do(f"kubectl apply -f {FILES}/2-bio-comes-later.yaml")
    play.look(
        f"{_GET} -o wide",
        f"astro quota {_CARD} 5 2 10 - 3 0",
        "WEIGHT SHARE ENTITLED",
        f"bio quota {_CARD} 5 2 10 - 3 0",
    )
    play.say("The share is what a quota borrows, divided by all that is guaranteed: 3/10 each.")
    play.look(
        "kubectl get events -n astro --field-selector reason=Preempted",
        "a fair move for ElasticQuota bio/quota",
    )
    play.say("The annotation muster.dev/weight gives a team a larger part, or only what nobody else wants.")
