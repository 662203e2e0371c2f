"""Child processes: relayed output, stop, and the error after an early end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.processes import ChildProcesses, ProcessEnded
from tests.support.eventually import eventually
from tests.support.in_process import until

PATIENT = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: exit(print("bye")))
print("up")
time.sleep(60)
"""


def python(text: str) -> list[str]:
    return [sys.executable, "-u", "-c", text]


@pytest.mark.smoke
def test_lines_are_passed_on_with_the_name() -> None:
    async def scenario() -> list[str]:
        said: list[str] = []
        stack = ChildProcesses(
            {"one": python("print('hello'); import sys; print('oops', file=sys.stderr)")}, said.append
        )
        with pytest.raises(ProcessEnded):
            await stack.run()
        return said

    assert sorted(asyncio.run(scenario())) == ["one | hello", "one | oops"]


def test_an_early_end_names_the_process_and_ends_the_others() -> None:
    async def scenario() -> str:
        said: list[str] = []
        stack = ChildProcesses({"patient": python(PATIENT), "hasty": python("input()")}, said.append)
        with pytest.raises(ProcessEnded) as ended:
            await stack.run()
        return str(ended.value)

    assert asyncio.run(scenario()) == "the hasty ended with exit code 1; see its last lines above"


PARENT = """
import asyncio, sys
from sandbox.processes import ChildProcesses
child = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
programs = {"one": [sys.executable, "-c", child]}
asyncio.run(ChildProcesses(programs, lambda line: print(line, flush=True)).run())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_killed_parent_leaves_no_process_behind() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline().removeprefix("one | "))
        assert is_running(child)
        parent.kill()
        assert eventually(lambda: not is_running(child))


def is_running(process: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_cancelling_ends_all_of_them_in_order() -> None:
    async def scenario() -> list[str]:
        said: list[str] = []
        task = asyncio.create_task(ChildProcesses({"one": python(PATIENT)}, said.append).run())
        await until(lambda: "one | up" in said)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return said

    assert asyncio.run(scenario()) == ["one | up", "one | bye"]


STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid())
time.sleep(60)
"""


def test_one_thread_alone_takes_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever else asks whether a process has ended may take it: asyncio warns of an unknown child then."""
    asked = []
    poll = subprocess.Popen.poll
    monkeypatch.setattr(subprocess.Popen, "poll", lambda self: asked.append(self.pid) or poll(self))

    async def scenario() -> None:
        said: list[str] = []
        programs = {"one": python(STUBBORN), "two": python(PATIENT)}
        task = asyncio.create_task(ChildProcesses(programs, said.append, patience=0.1).run())
        await until(lambda: len(said) >= 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())
    assert asked == []


def test_cancelling_kills_what_does_not_end_in_time() -> None:
    """Also under Python 3.11.2, whose `asyncio.timeout` raises CancelledError in a cancelled task."""

    async def scenario() -> int:
        said: list[str] = []
        task = asyncio.create_task(ChildProcesses({"one": python(STUBBORN)}, said.append, patience=0.1).run())
        await until(lambda: bool(said))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return int(said[0].removeprefix("one | "))

    assert not is_running(asyncio.run(scenario()))
