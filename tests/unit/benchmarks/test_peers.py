"""Muster beside kube-scheduler: what a line promises, and what counts as waiting for ever."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml

from benchmarks.peers import __main__ as peers
from benchmarks.peers import streams
from benchmarks.peers.bursts import BIND_SECONDS, Burst
from benchmarks.peers.programs import NAMES, PEER, peer_configuration
from benchmarks.peers.streams import Stream, Waited
from benchmarks.peers.table import Line, table
from scheduler_core.config.load import load_config

LINES = {
    "a ratio above its floor": (Line("w", "f", 2.0, 1.0, 2.0, floor=2.0), "ok"),
    "a ratio below its floor": (Line("w", "f", 1.9, 1.0, 1.9, floor=2.0), "MISSED"),
    "our figure below what is the least": (Line("w", "f", 99.0, 0.0, least=100.0), "MISSED"),
    "our figure above what is the most": (Line("w", "f", 151.0, 1.0, most=150.0), "MISSED"),
    "theirs is held to nothing": (Line("w", "f", 150.0, math.inf, most=150.0), "ok"),
    "pods that never start": (Line("w", "f", math.inf, 1.0, most=150.0), "MISSED"),
    "no bound": (Line("w", "f", 1.0, 2.0), ""),
    "a work that failed": (Line("w", "why", failed=True), "FAILED"),
}


@pytest.mark.parametrize(("line", "verdict"), LINES.values(), ids=LINES)
def test_a_line_says_whether_it_holds(line: Line, verdict: str) -> None:
    assert line.cells[-1] == verdict
    assert line.holds == (verdict in ("ok", ""))


def test_all_lines_of_a_table_are_as_wide() -> None:
    shown = table(line for line, _ in LINES.values()).splitlines()
    assert len({len(line) for line in shown}) == 1
    assert "never" in shown[6]


@pytest.mark.parametrize("work", peers.WORKS, ids=lambda work: f"{work.name}-{work.nodes}")
def test_the_small_form_is_small_and_held_to_no_bound(work: Burst | Stream) -> None:
    small = peers.smaller(work)
    assert small.nodes <= 100
    assert small.pods <= 120
    bounds = (small.floor,) if isinstance(small, Burst) else (small.p50, small.p99, small.cores)
    assert set(bounds) == {None}
    assert not isinstance(small, Stream) or (small.waiting <= 100 and small.pods / small.rate < BIND_SECONDS)


def test_pairs_begin_with_each_of_them_in_turn() -> None:
    assert [peers.order(pair)[0] for pair in range(4)] == ["Muster", PEER, "Muster", PEER]


def test_muster_in_the_place_of_the_peer_is_no_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        peers.main(["--stand-in", "plain"])
    assert "--stand-in measures Muster beside itself, so it wants --small" in capsys.readouterr().err


def test_pods_that_were_not_bound_make_a_median_of_never() -> None:
    lost = Waited(0.0, math.inf, math.inf, 1.0, 1.0)
    assert streams.median_of([lost, lost, Waited(1.0, 10.0, 20.0, 0.1, 0.1)]).p50 == math.inf


def test_the_peer_gets_a_configuration_that_is_valid(tmp_path: Path) -> None:
    config = peer_configuration(tmp_path / "kubeconfig")
    (profile,) = load_config(yaml.safe_dump(config), "peer").profiles
    assert profile.scheduler_name == NAMES[PEER]
