"""The pages whose blocks tests paste into a shell, and the few blocks of them that run elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.support.documents import Block, fenced

README: Final = "README.md"
INSTALL: Final = "docs/install.md"
RULES: Final = ("docs/quota.md", "docs/gangs.md", "docs/topology.md")
PASTED: Final = (README, INSTALL, *RULES)


@dataclass(frozen=True)
class Elsewhere:
    """A block that is not pasted: a page, a text of the block, what runs it, and why it runs there.

    `by` is a test function, or a stage of `.ci/run`.
    """

    page: str
    contains: str
    by: str
    why: str


_DEMO: Final = "test_every_chapter_comes_out_as_the_story_says"
_DEMO_WHY: Final = "it shows a part of the demo"
_CLIENTS: Final = "test_the_trial_says_that_the_webhook_was_asked_and_answered"
_CLIENTS_WHY: Final = "it needs a kube-apiserver with this flag"
ELSEWHERE: Final = (
    Elsewhere(README, "make demo", "stage demo", "it takes a minute"),
    Elsewhere(README, "make test", "stage test", "it runs all tests"),
    Elsewhere(README, "=== 1. Two teams share ten GPUs ===", _DEMO, _DEMO_WHY),
    Elsewhere(README, "kubectl podgroup rank group-a", _DEMO, _DEMO_WHY),
    Elsewhere(
        "docs/gangs.md",
        "kind: Ship",
        "test_the_entry_for_an_owner_of_your_own_is_understood",
        "the sandbox's webhook has the built-in table",
    ),
    Elsewhere(INSTALL, "--admission-control-config-file=", _CLIENTS, _CLIENTS_WHY),
    Elsewhere(INSTALL, "kubectl create --dry-run=server", _CLIENTS, _CLIENTS_WHY),
)


def elsewhere(block: Block) -> Elsewhere | None:
    """What runs the block if it is not pasted."""
    found = [entry for entry in ELSEWHERE if entry.page == block.page and entry.contains in block.body]
    return found[0] if found else None


def in_the_sandbox() -> list[Block]:
    """The blocks of the README up to the one that builds an image."""
    return story(README)[: _own_cluster()]


def on_your_cluster() -> list[Block]:
    """The blocks of the README from the one that builds an image on."""
    return story(README)[_own_cluster() :]


def _own_cluster() -> int:
    (at,) = [number for number, block in enumerate(story(README)) if "docker build" in block.body]
    return at


def story(page: str) -> list[Block]:
    """The blocks of a page that are pasted, in order."""
    return [block for block in fenced(page) if not elsewhere(block)]
