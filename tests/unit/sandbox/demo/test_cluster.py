"""The demo's cluster reports why it ended, and stops all its processes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.demo import cluster as module
from sandbox.demo.cluster import ClusterFailed, DemoCluster
from sandbox.store.object_store import ObjectStore
from tests.support.eventually import eventually

WAITING = """
import pathlib, sys, time
print("at work", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.02)
print("out of memory", flush=True)
sys.exit(5)
"""


@pytest.fixture(autouse=True)
def nothing_goes_on() -> Iterator[None]:
    """No thread of the cluster outlives a test."""
    yield
    assert not [thread for thread in threading.enumerate() if thread.name == "demo-cluster"]


def programs(monkeypatch: pytest.MonkeyPatch, script: str, *arguments: str) -> None:
    """One program in place of webhook and scheduler."""
    command = [sys.executable, "-c", script, *arguments]
    monkeypatch.setattr(module, "commands", lambda kubeconfig, state, config: {"webhook": command})


def started_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def signs(store: ObjectStore) -> None:
        """As if webhook and scheduler had given their signs."""

    monkeypatch.setattr(module, "wait_for_signs", signs)


def test_a_program_that_does_not_start_is_named_with_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    programs(monkeypatch, "print('first'); print('no such file'); raise SystemExit(3)")
    with (
        pytest.raises(
            ClusterFailed,
            match=r"^the webhook ended with exit code 3 \(last line: webhook \| no such file\)$",
        ),
        DemoCluster(lambda line: None),
    ):
        pytest.fail("the cluster came up")


def test_a_program_that_says_nothing_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    programs(monkeypatch, WAITING, str(tmp_path / "never"))
    monkeypatch.setattr(module, "START_SECONDS", 1.0)
    with (
        pytest.raises(ClusterFailed, match=r"^webhook and scheduler were not ready after 1 s"),
        DemoCluster(lambda line: None),
    ):
        pytest.fail("the cluster came up")


def test_a_program_that_ends_later_is_noticed_at_the_next_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started_at_once(monkeypatch)
    programs(monkeypatch, WAITING, str(tmp_path / "go"))
    lines: list[str] = []
    with DemoCluster(lines.append) as cluster:
        cluster.check()
        assert cluster.kubeconfig.exists()
        directory = cluster.directory
        (tmp_path / "go").touch()

        def noticed() -> bool:
            try:
                cluster.check()
            except ClusterFailed as error:
                return str(error) == "the webhook ended with exit code 5 (last line: webhook | out of memory)"
            return False

        assert eventually(noticed)
    assert lines == ["webhook | at work", "webhook | out of memory"]
    assert not directory.exists()


@pytest.mark.smoke
def test_leaving_ends_the_programs_and_removes_the_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started_at_once(monkeypatch)
    programs(monkeypatch, WAITING, str(tmp_path / "never"))
    with DemoCluster(lambda line: None) as cluster:
        directory = cluster.directory
        assert directory.is_dir()
    assert not directory.exists()
    cluster.check()
