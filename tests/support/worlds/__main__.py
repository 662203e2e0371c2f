"""Play worlds and print what is found.

`python -m tests.support.worlds SEED [SEED2]` plays the worlds of these seeds (SEED2 excluded),
`python -m tests.support.worlds FILE...` scenario files; `--shrink DIR` writes small scenario files. `--fair`:
worlds in which borrowers take from each other; `--slow`: in which pods take their time to end.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.worlds.files import scenario_text, world_of
from tests.support.worlds.generate import live
from tests.support.worlds.player import Finding, Player, World, play
from tests.support.worlds.shrink import shrunk

# Of every kind so many findings are printed, and so many worlds written.
SHOWN = 4


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.worlds",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="+", help="one seed, two seeds, or scenario files")
    parser.add_argument("--shrink", type=Path, metavar="DIR", help="write small scenario files here")
    parser.add_argument("--fair", action="store_true", help="seeds of worlds with fair moves")
    parser.add_argument("--slow", action="store_true", help="seeds of worlds with long grace periods")
    parser.add_argument("--only", default="", metavar="CHECK", help="only this check")
    parser.add_argument("--all", action="store_true", help="every finding, not the first few of each check")
    given = parser.parse_args()
    found: dict[str, list[tuple[World, Finding]]] = {}
    start, played, failing = time.perf_counter(), 0, 0
    for world, player in _worlds(given.what, fair=given.fair, slow=given.slow):
        played += 1
        failing += bool(player.findings)
        for check in dict.fromkeys(item.check for item in player.findings):
            first = next(item for item in player.findings if item.check == check)
            found.setdefault(check, []).append((world, first))
    took = time.perf_counter() - start
    print(f"{played} worlds in {took:.1f} s, {failing} with findings")
    for check, items in sorted(found.items(), key=lambda pair: -len(pair[1])):
        if given.only in ("", check):
            print(f"\n{check}: {len(items)} worlds")
            for world, finding in items[: None if given.all else SHOWN]:
                print(f"  {world['name']}, step {finding.step}: {finding.text}")
                if given.shrink:
                    _write(given.shrink, world, finding)


def _worlds(what: Sequence[str], *, fair: bool, slow: bool) -> Iterator[tuple[World, Player]]:
    if what[0].isdigit():
        first = int(what[0])
        last = int(what[1]) if len(what) > 1 else first + 1
        yield from (live(seed, fair=fair, slow=slow) for seed in range(first, last))
        return
    for name in what:
        world = world_of(Path(name))
        world["name"] = name
        yield world, play(world)


def _write(folder: Path, world: World, finding: Finding) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    small = shrunk(world, finding.check)
    path = folder / f"{finding.check}-{world['seed']}.yaml"
    path.write_text(scenario_text(small, f"{finding.check}: {finding.text}"))
    print(f"    {path}")


if __name__ == "__main__":
    main()
