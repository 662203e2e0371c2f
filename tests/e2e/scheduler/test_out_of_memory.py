"""Programs whose memory ends: the process ends too, whichever thread noticed, so that another one begins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scheduler_core.logs.out_of_memory import OUT_OF_MEMORY
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import bound, create_node, create_pod, scheduler
from tests.support.eventually import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.long]
SECONDS = 60.0
CHANGE = """
import importlib, sys

def no_memory(*args, **kwargs):
    raise MemoryError

target = importlib.import_module({module!r})
setattr(getattr(target, {owner!r}), {name!r}, no_memory)
sys.argv = ["program", *sys.argv[1:]]
importlib.import_module({program!r}).main()
"""
SCHEDULER_PLACES = {
    "a turn of the loop": ("scheduler_core.engine.scheduler", "Scheduler", "step"),
    "a plugin": ("scheduler_core.plugins.node_resources_fit", "NodeResourcesFit", "pre_filter"),
    "a watch": ("scheduler_core.kube.watch.tracker", "Tracker", "upsert"),
    "a write": ("scheduler_core.kube.writes.write_connection", "QueuedWrite", "http_request"),
    "the outcome of a write": ("scheduler_core.kube.writes.write_connection", "QueuedWrite", "complete"),
}
WEBHOOK_PLACES = {
    "a watch": ("scheduler_core.kube.watch.tracker", "Tracker", "upsert"),
    "the audit": ("webhook.view.audit", "Auditor", "round"),
    "reservations": ("webhook.reservations.reconciler", "Reconciler", "tick"),
    "certificates": ("webhook.http.server", "WebhookServer", "reread_clients"),
}


@pytest.mark.parametrize("place", SCHEDULER_PLACES.values(), ids=SCHEDULER_PLACES)
def test_the_scheduler_ends(cluster: Cluster, tmp_path: Path, place: tuple[str, str, str]) -> None:
    module, owner, name = place
    text = CHANGE.format(module=module, owner=owner, name=name, program="scheduler_core.app.__main__")
    create_node(cluster, "one")
    namespace = cluster.namespace()
    with scheduler(cluster, tmp_path, program=("-c", text), ready=False) as running:
        create_pod(cluster, namespace, "a")
        assert running.process.wait(SECONDS) == OUT_OF_MEMORY, running.said()
    assert "out of memory: the process ends" in running.said()


@pytest.mark.parametrize("place", WEBHOOK_PLACES.values(), ids=WEBHOOK_PLACES)
def test_the_webhook_ends(cluster: Cluster, tmp_path: Path, place: tuple[str, str, str]) -> None:
    module, owner, name = place
    text = CHANGE.format(module=module, owner=owner, name=name, program="webhook.__main__")
    create_node(cluster, "one")
    flags = ("--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--cert-dir", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", text, "serve", "--kubeconfig", str(cluster.kubeconfig), *flags],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == OUT_OF_MEMORY, done.stderr
    assert "out of memory: the process ends" in done.stderr


def test_a_webhook_that_lost_a_part_ends(cluster: Cluster, tmp_path: Path) -> None:
    """Another error than memory's: it is said, and the process ends instead of going on."""
    text = CHANGE.format(
        module="webhook.reservations.reconciler", owner="Reconciler", name="tick", program="webhook.__main__"
    ).replace("raise MemoryError", "raise ZeroDivisionError")
    flags = ("--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--cert-dir", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", text, "serve", "--kubeconfig", str(cluster.kubeconfig), *flags],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "muster-webhook: the thread that looks after reservations ended"


def test_a_program_whose_output_nobody_reads_works_on(cluster: Cluster, tmp_path: Path) -> None:
    """Standard error and output are one full pipe, at a verbosity that logs every decision."""
    create_node(cluster, "one", cpu="500")
    namespace = cluster.namespace()
    with scheduler(cluster, tmp_path, "-v=4", program=("-c", FULL)) as running:
        for number in range(60):
            create_pod(cluster, namespace, f"p-{number}")
        eventually(lambda: len(bound(cluster, namespace)) == 60, SECONDS)
        eventually(lambda: running.metric("muster_log_lines_dropped") > 0, SECONDS)


FULL = """
import fcntl, os, sys
reading, writing = os.pipe()
fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
for descriptor in (1, 2):
    os.dup2(writing, descriptor)
from scheduler_core.app.__main__ import main
sys.argv = ["program", *sys.argv[1:]]
main()
"""
