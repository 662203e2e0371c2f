"""Puts Muster beside the real ones, and fails where they differ and no row of the table says so.

    python -m tests.beside.run [--small] [--worlds N] [--inputs N] [--seed N] [--minors 1.36,1.37] [PART...]

`rig`: random worlds, decided by kube-scheduler and by Muster's engine. `packages`: random inputs, answered by
Kubernetes' Go packages. `clients`: kubeconfigs, read by kubectl and by Muster. An unexplained difference of a
world is written as a scenario to DIR (build/beside), made small with `--shrink`.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.beside.clients.compare import compare
from tests.beside.clients.kubeconfigs import KUBECONFIGS
from tests.beside.clients.listener import listening
from tests.beside.minors import MINORS, NEWEST
from tests.beside.packages.bulk import PEERS, SUBJECTS, Subject, differences
from tests.beside.packages.difference import Difference
from tests.beside.packages.go_program import ProgramFailed
from tests.beside.packages.meant import meant as meant_in_packages
from tests.beside.rig.generate import world
from tests.beside.rig.groups import group_scenario, group_world, lowest, play_group
from tests.beside.rig.meant import meant
from tests.beside.rig.outcome import UNDECIDED, Finding
from tests.beside.rig.play import Step, play
from tests.beside.rig.real import Real
from tests.beside.rig.scenario import objects_of, scenario_text
from tests.beside.rig.shapes import common
from tests.beside.rig.shrink import shrunk
from tests.support.clusters.control_plane import ControlPlaneFailed
from tests.tools.build import ToolMissing
from tests.tools.progress import interruptible

OUT: Final = Path("build/beside")
# Of every kind so many unexplained differences are printed and written.
SHOWN: Final = 3
# For so many worlds of pods there is one of a native group.
PODS_PER_GROUP: Final = 4
SMALL: Final = ("10", "4000")


@dataclass(slots=True)
class Tally:
    """What one part found: how many inputs, the rows that explained differences, and those without a row."""

    title: str
    inputs: int = 0
    unit: str = "inputs"
    explained: Counter[str] = field(default_factory=Counter)
    unexplained: Counter[str] = field(default_factory=Counter)

    def add(self, key: str, kind: str, text: str) -> bool:
        """Count a difference; whether it is one that should be shown."""
        if key:
            self.explained[key] += 1
            return False
        self.unexplained[kind] += 1
        shown = self.unexplained[kind] <= SHOWN
        if shown:
            print(f"{self.title}: {text}", file=sys.stderr, flush=True)
        return shown

    def line(self) -> str:
        """The part in a line."""
        meant_ones = ", ".join(f"{count} {key}" for key, count in sorted(self.explained.items()))
        others = ", ".join(f"{count} {kind}" for kind, count in sorted(self.unexplained.items()))
        found = f"UNEXPLAINED: {others}" if others else "nothing unexplained"
        return f"{self.title}: {self.inputs:,} {self.unit}, {found}" + (
            f" ({meant_ones})" if meant_ones else ""
        )


def rig(given: argparse.Namespace) -> Iterable[Tally]:
    """Random worlds beside the kube-scheduler of each minor version, of single pods and of native groups."""
    for minor in given.minors:
        tally = Tally(f"kube-scheduler {minor}", unit="steps")
        with Real(minor, [*common(), lowest()]) as real:
            for seed in range(given.seed, given.seed + given.worlds):
                played = play(real, world(seed))
                tally.inputs += len(played.steps)
                for words in played.refused:
                    tally.add("", "an object is refused", words)
                for step in played.steps:
                    for finding in step.findings:
                        if tally.add(meant(step, finding, minor), finding.kind, _told(step, finding)):
                            _keep(real, step, finding, minor, given)
            yield tally
            yield _groups(real, given)


def _groups(real: Real, given: argparse.Namespace) -> Tally:
    """Worlds of native groups, one for four of pods."""
    tally = Tally(f"native groups of kube-scheduler {real.minor}", unit="groups")
    for seed in range(given.seed, given.seed + math.ceil(given.worlds / PODS_PER_GROUP)):
        played = play_group(real, group_world(seed))
        tally.inputs += 1
        if isinstance(played, str):
            tally.add("", "an object is refused", played)
            continue
        for finding in played.findings:
            if tally.add("", finding.kind, f"{played.world}: {finding}"):
                text = group_scenario(played, real.minor)
                _write(given.out, f"{played.world} {finding.kind}", text)
    return tally


def _told(step: Step, finding: Finding) -> str:
    return f"{step.world}, pod {step.pod['metadata']['name']}: {finding}"


def _keep(real: Real, step: Step, finding: Finding, minor: str, given: argparse.Namespace) -> None:
    """Write the step as a scenario, made small if that is asked for and does not take a minute a try."""
    undecided = finding.kind.endswith(UNDECIDED)
    if given.shrink and not undecided:
        step = shrunk(real, step, finding.kind, lambda s, f: not meant(s, f, minor))
        finding = next(found for found in step.findings if found.kind == finding.kind)
    theirs = None if finding.kind == UNDECIDED else step.theirs
    text = scenario_text(objects_of(step), step.pod, theirs, str(finding), minor)
    _write(given.out, f"{step.world} {step.pod['metadata']['name']} {finding.kind}", text)


def _write(folder: Path, title: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{title.replace(' ', '-').replace('/', '-')}.yaml"
    path.write_text(text)
    print(f"  {path}", file=sys.stderr, flush=True)


def packages(given: argparse.Namespace) -> Iterable[Tally]:
    """Random inputs for the packages of each minor version, and for those of other schedulers."""
    for minor in given.minors:
        for subject in SUBJECTS:
            yield _asked(subject, minor, int(given.inputs * subject.share / len(given.minors)), given.seed)
    for subject in () if given.small else PEERS:
        yield _asked(subject, NEWEST, int(given.inputs * subject.share), given.seed)


def _asked(subject: Subject, minor: str, count: int, seed: int) -> Tally:
    tally = Tally(f"{subject.name} of {subject.whose(minor)}", count)
    for found in differences(subject, minor, count, seed):
        tally.add(meant_in_packages(found, minor), found.kind, str(found))
    return tally


def clients(_: argparse.Namespace) -> Iterable[Tally]:
    """The table of kubeconfigs."""
    tally = Tally("kubectl", len(KUBECONFIGS), unit="kubeconfigs")
    with tempfile.TemporaryDirectory() as folder, listening(Path(folder)) as listener:
        found: Difference
        for found in compare(listener):
            tally.add(meant_in_packages(found), found.kind, str(found))
    yield tally


PARTS: Final = {"clients": clients, "packages": packages, "rig": rig}


def main(argv: list[str]) -> int:
    """Run the parts; 1 where something differs without a row, or could not be run."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.beside.run", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="few of each, of the newest minor version")
    parser.add_argument("--worlds", type=int, default=700, help="for each minor version")
    parser.add_argument("--inputs", type=int, default=100_000, help="of all packages")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--minors", type=lambda text: text.split(","), default=list(MINORS), metavar="1.37,..."
    )
    parser.add_argument("--shrink", action="store_true", help="write small scenarios; minutes for each")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    given = parser.parse_args(argv)
    if unknown := (set(given.parts) - set(PARTS)) | (set(given.minors) - set(MINORS)):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if given.small:
        given.minors, given.worlds, given.inputs = [NEWEST], *map(int, SMALL)
    with interruptible():
        try:
            return _run(given)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130


def _run(given: argparse.Namespace) -> int:
    failed = False
    for part in given.parts or PARTS:
        started = time.monotonic()
        try:
            for tally in PARTS[part](given):
                print(tally.line(), flush=True)
                failed |= bool(tally.unexplained)
        except (ToolMissing, ProgramFailed, ControlPlaneFailed) as error:
            print(f"{part} could not be run: {error}", file=sys.stderr)
            failed = True
        print(f"{part}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
