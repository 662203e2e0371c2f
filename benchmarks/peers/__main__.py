"""Comparison of Muster and kube-scheduler end to end on one kube-apiserver, as a table with ratios.

    python -m benchmarks.peers [--pairs 3] [--small [--stand-in]] [WORK...]

The pods of a burst exist before the scheduler starts; those of a stream arrive while it runs. Each run has
its own namespaces. The schedulers run in pairs in alternating order; figures are medians over the pairs, and
a ratio is the median of the pairs' ratios. kube-scheduler has the plugins CapacityScheduling and
Coscheduling, and no client rate limit; for native groups it is the newest one without plugins, on the newest
kube-apiserver. A slow host slows kube-scheduler more; the CPU time of the API server
per pod shows the speed of the host. The exit code is 1 if a bound is missed or a workload fails.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import TypeVar

from benchmarks.peers import bursts, streams
from benchmarks.peers.bed import Bed
from benchmarks.peers.bursts import Burst
from benchmarks.peers.programs import MUSTER, PEER
from benchmarks.peers.streams import Stream
from benchmarks.peers.table import Line, table
from benchmarks.run import machine, one_line
from tests.support.clusters.server import NEWEST, SERVERS

BURSTS = (
    Burst("plain", bursts.plain, 1_000, 3_000, 2.0),
    Burst("different", bursts.different, 1_000, 3_000),
    Burst("quotas", bursts.quotas, 1_000, 3_000, 3.5),
    Burst("gangs", bursts.gangs, 1_000, 3_000, 3.5),
)
LARGE = (Burst("plain", bursts.plain, 5_000, 3_000, 3.0),)
BACKLOG = Stream("backlog", 1_000, 2_000, 200.0, 20_000, 50.0, p50=150.0, p99=600.0, cores=0.2)
STREAMS = (
    Stream("steady", 1_000, 6_000, 300.0),
    BACKLOG,
    replace(BACKLOG, name="backlog-charged", charged=True),
)
NATIVE = (Burst("native-gangs", bursts.native_gangs, 1_000, 3_000, 3.0, native=True),)
WORKS: tuple[Burst | Stream, ...] = (*BURSTS, *STREAMS, *LARGE, *NATIVE)


Figures = TypeVar("Figures", bursts.Bound, streams.Waited)


def smaller(work: Burst | Stream) -> Burst | Stream:
    """A small form of a workload that takes seconds and has no bounds."""
    if isinstance(work, Burst):
        return replace(work, nodes=work.nodes // 50, pods=120, floor=None)
    ends = 10.0 if work.ends else 0.0
    tiny = replace(work, nodes=work.nodes // 50, pods=60, rate=30.0, waiting=work.waiting // 200, ends=ends)
    return replace(tiny, p50=None, p99=None, cores=None)


def burst_lines(bed: Bed, burst: Burst, pairs: int) -> Iterator[Line]:
    """Rate and processor times of a burst."""
    found: dict[str, list[bursts.Bound]] = {MUSTER: [], PEER: []}
    for pair in range(pairs):
        for program in order(pair):
            found[program].append(_said(program, bursts.measure(bed, program, burst, bed.turn())))
    ours, theirs = (bursts.median_of(found[program]) for program in (MUSTER, PEER))
    ratio = median(a.rate / b.rate for a, b in zip(found[MUSTER], found[PEER], strict=True))
    yield Line(burst.title, "pods/s", ours.rate, theirs.rate, ratio, floor=burst.floor)
    yield Line("", "own CPU per pod, start included, ms", ours.own_ms, theirs.own_ms)
    yield Line("", "API server's CPU per pod, ms", ours.api_ms, theirs.api_ms)
    yield Line("", "start to the last binding, s", ours.seconds, theirs.seconds)


def stream_lines(bed: Bed, stream: Stream, pairs: int) -> Iterator[Line]:
    """Latencies and cores of a stream."""
    found: dict[str, list[streams.Waited]] = {MUSTER: [], PEER: []}
    for pair in range(pairs):
        for program in order(pair):
            found[program].append(_said(program, streams.measure(bed, program, stream, bed.turn())))
    ours, theirs = (streams.median_of(found[program]) for program in (MUSTER, PEER))
    title = f"{stream.name}, {stream.nodes:,} nodes, {stream.pods:,} pods at {stream.rate:g}/s"
    if stream.waiting:
        title += f", {stream.waiting:,} wait, {stream.ends:g} ends/s"
    bounded = stream.p50 is not None
    yield Line(title, "bound, %", ours.bound * 100, theirs.bound * 100, least=100.0 if bounded else None)
    yield Line("", "p50, ms", ours.p50, theirs.p50, most=stream.p50)
    yield Line("", "p99, ms", ours.p99, theirs.p99, most=stream.p99)
    yield Line("", "own cores", ours.cores, theirs.cores, most=stream.cores)
    yield Line("", "API server's cores", ours.api_cores, theirs.api_cores)


def _said(program: str, figures: Figures) -> Figures:
    """Print each run immediately, because a long run may not reach the table."""
    print(f"  {program}: {figures}", file=sys.stderr, flush=True)
    return figures


def measured(bed: Bed, work: Burst | Stream, pairs: int) -> Sequence[Line]:
    """The lines of a workload, or one line with its failure."""
    try:
        return list(
            burst_lines(bed, work, pairs) if isinstance(work, Burst) else stream_lines(bed, work, pairs)
        )
    except Exception as error:
        traceback.print_exc()
        return [Line(work.name, one_line(error), failed=True)]


def order(pair: int) -> Sequence[str]:
    """Which program a pair of runs begins with, and the other one: each begins in turn."""
    return (MUSTER, PEER) if pair % 2 == 0 else (PEER, MUSTER)


def main(argv: list[str]) -> int:
    """Run the named workloads, or all; returns 1 if one fails or misses a bound."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    known = sorted({work.name for work in WORKS})
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="a few nodes and pods, one pair, no bounds")
    parser.add_argument(
        "--stand-in",
        action="store_true",
        help="with --small: Muster in the peer's place",
    )
    parser.add_argument("names", nargs="*", metavar="WORK", help=", ".join(known))
    given = parser.parse_args(argv)
    if unknown := set(given.names) - set(known):
        parser.error(f"no such work: {', '.join(sorted(unknown))}")
    if given.stand_in and not given.small:
        parser.error("--stand-in measures Muster beside itself, so it wants --small")
    chosen = [work for work in WORKS if not given.names or work.name in given.names]
    works = [smaller(work) if given.small else work for work in chosen]
    lines: list[Line] = []
    newest = [work for work in works if isinstance(work, Burst) and work.native]
    for apiserver, share in ((SERVERS[1], [w for w in works if w not in newest]), (NEWEST, newest)):
        if not share:
            continue
        with Bed(apiserver, stand_in=given.stand_in) as bed:
            for work in share:
                print(f"{work.name}, {work.nodes:,} nodes", file=sys.stderr, flush=True)
                bed.grow(work.nodes)
                lines += measured(bed, work, 1 if given.small else given.pairs)
    note = f"{MUSTER} stands in for {PEER}: no figure says anything about it\n\n" if given.stand_in else ""
    print(f"{machine()}\n\n{note}{table(lines)}")
    return int(not all(line.holds for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
