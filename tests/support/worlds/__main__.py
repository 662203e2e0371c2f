"""Play worlds and print what is found: `python -m tests.support.worlds SEED [SEED2] [--shrink DIR]`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tests.support.worlds.generate import live
from tests.support.worlds.player import Finding, World
from tests.support.worlds.shrink import scenario_text, shrunk

# Of every kind so many findings are printed, and so many worlds written.
SHOWN = 4


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.worlds", description=__doc__)
    parser.add_argument("first", type=int, help="the first seed")
    parser.add_argument("last", type=int, nargs="?", help="the seed after the last one")
    parser.add_argument("--shrink", type=Path, metavar="DIR", help="write small scenario files here")
    parser.add_argument("--only", default="", help="only this check")
    parser.add_argument("--messages", action="store_true", help="compare messages with a fresh scheduler's")
    given = parser.parse_args()
    last = given.last if given.last is not None else given.first + 1
    found: dict[str, list[tuple[World, Finding]]] = {}
    start, failing = time.perf_counter(), 0
    for seed in range(given.first, last):
        world, player = live(seed, messages=given.messages)
        failing += bool(player.findings)
        for check in dict.fromkeys(item.check for item in player.findings):
            first = next(item for item in player.findings if item.check == check)
            found.setdefault(check, []).append((world, first))
    took = time.perf_counter() - start
    print(f"{last - given.first} worlds in {took:.1f} s, {failing} with findings")
    for check, items in sorted(found.items(), key=lambda pair: -len(pair[1])):
        if given.only not in ("", check):
            continue
        print(f"\n{check}: {len(items)} worlds")
        for world, finding in items[:SHOWN]:
            print(f"  {world['name']}, step {finding.step}: {finding.text}")
            if given.shrink:
                _write(given.shrink, world, finding)


def _write(folder: Path, world: World, finding: Finding) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    small = shrunk(world, finding.check)
    path = folder / f"{finding.check}-{world['seed']}.yaml"
    path.write_text(scenario_text(small, f"{finding.check}: {finding.text}"))
    print(f"    {path}")


if __name__ == "__main__":
    main()
