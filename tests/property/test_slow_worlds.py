"""Worlds in which pods take their time to end, and nodes are lost meanwhile.

The checks are those of all worlds (`tests/support/worlds/`): nobody waits beside room that it may have,
nobody is evicted in vain or twice, and a fresh scheduler changes nothing.
"""

from __future__ import annotations

from tests.support.every import every_seed
from tests.support.searches import cases
from tests.support.worlds.generate import live

WORLDS = cases(150)


@every_seed(range(WORLDS), each=25)
def test_nobody_waits_or_goes_in_vain_where_pods_take_their_time(seed: int) -> None:
    _, player = live(seed, slow=True)
    assert not player.findings, player.findings[0]
