"""Memory and time of objects of 1 MB in their worst shapes, a process for each shape.

A scheduler reads a hundred objects of one shape at its start, then a pod of another team arrives. The figures
are those of the process beyond the same without hostile objects. `python -m benchmarks.bench_hostile_objects
[--count 100] [--size 1000000] [--shape TEXT]` prints them as a table. With `--together MIB`, one scheduler
has so much memory in a cgroup of its own, version 1, and reads the objects of all shapes.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from benchmarks.bench_process import cpu_seconds, synced_scheduler
from benchmarks.bench_restart import change, plain_pod
from benchmarks.bench_startup import memory
from benchmarks.support.canned_server import PODS_PATH, VERSION, CannedServer, node, pages
from benchmarks.support.row import Row
from scheduler_core.kube.paths import resource_path
from tests.support.free_port import free_port
from tests.support.hostile_objects import SHAPES, SIZE, Json, Shape

COUNT = 100
# `make bench` plays fewer of each. Before there were limits, 30 objects took up to 1,100 MiB.
FEW, MOST_MIB = 30, 100
PATIENCE_SECONDS = 120.0
MOST_BYTES = 6 << 30
_PAGE = 10
CGROUPS = Path("/sys/fs/cgroup/memory")


@dataclass(frozen=True)
class Cost:
    """MiB that stay and at most, seconds of a processor, and seconds until the other pod was bound."""

    kept: float
    peak: float
    cpu: float
    other: float

    def beyond(self, without: Cost) -> Cost:
        """The same, less what the process costs without hostile objects."""
        return Cost(self.kept - without.kept, self.peak - without.peak, self.cpu - without.cpu, self.other)


def listed(objects: list[Json]) -> list[bytes]:
    """Pages of a few objects each, as servers send them when the objects are large."""
    found = []
    for start in range(0, len(objects), _PAGE):
        end = start + _PAGE
        more = {"continue": f"{end // _PAGE}"} if end < len(objects) else {}
        meta = {"resourceVersion": str(VERSION), **more}
        found.append(msgspec.json.encode({"metadata": meta, "items": objects[start:end]}))
    return found


def measured(shape: Shape | None, count: int, size: int) -> Cost:
    """The figures of one process."""
    lists = {"/api/v1/nodes": pages(20, node)}
    if shape is not None:
        lists[resource_path(shape.resource)] = listed([shape.make(number, size) for number in range(count)])
    bound = threading.Event()

    def on_bind(key: str, node: str) -> None:
        if key.startswith("other/"):
            bound.set()

    with CannedServer(lists, on_bind) as server, synced_scheduler(server) as process:
        began = time.monotonic()
        server.tell(PODS_PATH, change("ADDED", plain_pod("other", "first"), 1))
        if not bound.wait(PATIENCE_SECONDS):
            raise TimeoutError(f"the pod of another team was not bound; exit code {process.poll()}")
        other = time.monotonic() - began
        return Cost(
            memory(process.pid, "VmRSS"), memory(process.pid, "VmHWM"), cpu_seconds(process.pid), other
        )


@contextmanager
def memory_cgroup(mib: int) -> Iterator[Path]:
    """A memory cgroup, version 1, with this limit. Raises OSError where none can be made."""
    folder = CGROUPS / f"muster-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / "memory.limit_in_bytes").write_text(str(mib << 20))
        yield folder
    finally:
        # Its processes may take a moment to be gone.
        for _ in range(50):
            if not (folder / "cgroup.procs").read_text():
                break
            time.sleep(0.1)
        folder.rmdir()


def all_shapes(count: int, size: int) -> dict[str, list[bytes]]:
    """Lists with `count` objects of each shape, and 20 nodes."""
    made: dict[str, list[Json]] = {}
    for shape in SHAPES:
        objects = made.setdefault(resource_path(shape.resource), [])
        for _ in range(count):
            item = shape.make(len(objects), size)
            item["metadata"] |= {"name": f"o{len(objects)}", "uid": f"{shape.resource.plural}-{len(objects)}"}
            objects.append(item)
    return {"/api/v1/nodes": pages(20, node), **{path: listed(objects) for path, objects in made.items()}}


def together(count: int, size: int, mib: int) -> None:
    """Print what one scheduler takes that reads `count` objects of each shape in a memory cgroup of `mib`."""
    bound = threading.Event()

    def on_bind(key: str, node: str) -> None:
        if key.startswith("other/"):
            bound.set()

    with (
        memory_cgroup(mib) as folder,
        CannedServer(all_shapes(count, size), on_bind) as server,
        synced_scheduler(server, folder) as process,
    ):
        server.tell(PODS_PATH, change("ADDED", plain_pod("other", "first"), 1))
        started = bound.wait(PATIENCE_SECONDS)
        _tell(f"{count} of each of {len(SHAPES)} shapes", mib, folder, process)
        text = "was bound" if started else f"was not bound; exit code {process.poll()}"
        print(f"the pod of another team {text}")


def ready_beside(program: str, count: int, size: int, mib: int) -> None:
    """Print what the webhook or the console takes until it is ready, in a memory cgroup of `mib`."""
    port, here = free_port(), Path(tempfile.mkdtemp())
    with memory_cgroup(mib) as folder, CannedServer(all_shapes(count, size)) as server:
        flags = ["--kubeconfig", str(server.kubeconfig)]
        if program == "webhook":
            flags += ["serve", "--listen", "127.0.0.1:0", "--metrics-listen", f"127.0.0.1:{port}"]
            command = ["webhook", flags.pop(2), *flags, "--cert-dir", str(here / "certs")]
        else:
            command = ["kubectl_plugin.console", *flags, "--secure-port=0", f"--health-port={port}"]
        with (
            (here / "log").open("w") as log,
            started_in(folder, [sys.executable, "-m", *command], log) as process,
        ):
            until = time.monotonic() + PATIENCE_SECONDS
            while not (ready := is_ready(port)) and process.poll() is None and time.monotonic() < until:
                time.sleep(0.2)
            _tell(f"{program}, {count} of each of {len(SHAPES)} shapes", mib, folder, process)
            print("it is ready" if ready else f"it is not ready; exit code {process.poll()}, {here / 'log'}")


@contextmanager
def started_in(folder: Path, command: list[str], log: IO[str]) -> Iterator[subprocess.Popen[str]]:
    """A process in a cgroup, which is ended with the block."""
    entered = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(folder / "cgroup.procs"), *command]
    process = subprocess.Popen(entered, stdout=log, stderr=log, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def is_ready(port: int) -> bool:
    """Whether a program says at its port of health that it has read all lists."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _tell(what: str, mib: int, folder: Path, process: subprocess.Popen[str]) -> None:
    most = int((folder / "memory.max_usage_in_bytes").read_text()) >> 20
    resident = memory(process.pid, "VmRSS") if process.poll() is None else 0.0
    print(f"{what}, {mib} MiB: at most {most} MiB, {resident:.0f} resident")


def main(small: bool = False) -> list[Row]:
    """Rows of the table: MiB that some objects of each shape keep."""
    count, size = (2, 10_000) if small else (FEW, SIZE)
    without = measured(None, count, size)
    rows = []
    for shape in SHAPES[:1] if small else SHAPES:
        cost = measured(shape, count, size).beyond(without)
        rows.append(Row(f"{count} x {shape.name}", cost.kept, "MiB", ceiling=MOST_MIB))
    return rows


def table(count: int, size: int, part: str) -> None:
    """Print all figures of the shapes whose names contain `part`."""
    measured(None, count, size)  # the first start of a tree compiles it
    without = measured(None, count, size)
    print(f"without: {without.kept:.0f} MiB, peak {without.peak:.0f} MiB, {without.cpu:.1f} s")
    print("| shape | kept, MiB | peak, MiB | bytes per byte | CPU, s | other's pod, s |")
    print("|---|---|---|---|---|---|")
    for shape in SHAPES:
        if part in shape.name:
            try:
                cost = measured(shape, count, size).beyond(without)
            except TimeoutError as error:
                print(f"| {shape.name} | {error} |", flush=True)
                continue
            each = cost.kept * 2**20 / (count * len(msgspec.json.encode(shape.make(1, size))))
            print(
                f"| {shape.name} | {cost.kept:.0f} | {cost.peak:.0f} | {each:.2f} | {cost.cpu:.1f} "
                f"| {cost.other:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--together", type=int, default=0, metavar="MIB")
    parser.add_argument("--shape", default="", help="only shapes whose name contains this")
    parser.add_argument("--program", default="scheduler", choices=["scheduler", "webhook", "console"])
    given = parser.parse_args()
    if given.together and given.program != "scheduler":
        ready_beside(given.program, given.count, given.size, given.together)
    elif given.together:
        together(given.count, given.size, given.together)
    else:
        # What takes more would take the machine from others.
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
        table(given.count, given.size, given.shape)
