"""Chapter 18: a department of two teams has a quota of its own above those of its teams."""

from __future__ import annotations

from typing import Final

from sandbox.demo.player import Player

FILES: Final = "examples/department"
_CARD: Final = "example.com/card"
_TREE: Final = "kubectl elasticquota get --tree"


def department(play: Player) -> None:
    """Teams of a department borrow from it first, and give back inside it first."""
    play.say("Six of ten cards are guaranteed to the department science: 3 to astro, 2 to bio, 1 to either.")
    play.do(f"kubectl apply --server-side -f {FILES}/nodes.yaml")
    play.do(f"kubectl apply -f {FILES}/groups.yaml")
    for namespace in ("astro", "bio", "shop"):
        play.scheduled_by_muster(namespace)
    play.say("astro asks for all ten. The max of the department is 9, whatever the max of its teams.")
    play.do(f"kubectl apply -f {FILES}/1-astro.yaml")
    play.look(_TREE, f"science {_CARD} 6 9 9 3 -", f"bio/quota {_CARD} 2 0 10 - 2")
    play.say("bio asks for its two cards. It gets them inside the department, which borrows itself.")
    play.do(f"kubectl apply -f {FILES}/2-bio.yaml")
    play.look(_TREE, f"astro/quota {_CARD} 3 7 10 4 -", f"bio/quota {_CARD} 2 2 10 - -")
    play.say(
        "shop is outside and asks for its four. The department gives back what it borrows and keeps its six;",
        "astro keeps the one card that is guaranteed to the department and to neither team.",
    )
    play.do(f"kubectl apply -f {FILES}/3-shop.yaml")
    play.look(
        _TREE,
        f"science {_CARD} 6 6 9 - -",
        f"astro/quota {_CARD} 3 4 10 1 -",
        f"bio/quota {_CARD} 2 2 10 - -",
        f"shop/quota {_CARD} 4 4 10 - -",
    )
