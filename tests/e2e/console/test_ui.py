"""The console on the user's machine: it opens with one command, and tells what the command line tells."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.test_answers import gang, quota
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import bound, create_node, scheduler
from tests.support.console_session import ConsoleSession, local_console
from tests.support.eventually import eventually

pytestmark = pytest.mark.e2e
BIN = Path(sys.executable).parent
WAIT = 30.0

# The page, and the command that prints the same document.
SAME = {
    "/now": ("elasticquota", "get", "-A", "--figures"),
    "/lending": ("elasticquota", "lending", "-A"),
    "/queue": ("elasticquota", "queue", "-A", "--first", "0"),
    "/gangs": ("podgroup", "status", "-A"),
    "/topology": ("podgroup", "topology"),
}


def printed(cluster: Cluster, *words: str) -> Any:
    """What a command prints as JSON."""
    command = [
        str(BIN / f"kubectl-{words[0]}"),
        *words[1:],
        "-o",
        "json",
        "--kubeconfig",
        str(cluster.kubeconfig),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def without_advice(document: Any) -> Any:
    """The document without what is looked for in the background."""
    return {
        **document,
        "waiting": [
            {key: value for key, value in unit.items() if key not in ("starts", "step", "whatIf", "never")}
            for unit in document["waiting"]
        ],
    }


@pytest.fixture
def teams(cluster: Cluster) -> tuple[str, str]:
    """One team asks for more than its max, the other lends."""
    mine, other = cluster.namespace("asks"), cluster.namespace("lends")
    for name in ("n1", "n2"):
        create_node(cluster, name, cpu="4")
    objects = [quota(mine, "2", "4"), quota(other, "6", "8"), *gang(mine, "2"), *gang(other, "5")]
    cluster.kubectl("create", "-f", "-", input=yaml.safe_dump_all(objects))
    return mine, other


def test_the_command_opens_the_console(cluster: Cluster, teams: tuple[str, str], tmp_path: Path) -> None:
    """Every page answers, and its document is that of the command line; the numbers follow the cluster."""
    mine, other = teams
    with scheduler(cluster, tmp_path):
        eventually(lambda: len(bound(cluster, mine)) == 2, WAIT)
        with local_console(cluster.kubeconfig) as (process, session):
            for path, words in SAME.items():
                assert session.page(path).status == 200
                eventually(lambda path=path, words=words: _equal(cluster, session, path, words), WAIT)
            gang_page = session.ask(f"/gangs/{mine}/incubator.train?format=json").json()
            assert gang_page["status"] == printed(cluster, "podgroup", "status", "train", "-n", mine)
            assert gang_page["ranks"] == printed(cluster, "podgroup", "rank", "train", "-n", mine)
            waits = session.ask(f"/gangs/{other}/incubator.train?format=json&steps=1").json()["why"]
            told = printed(cluster, "elasticquota", "why", "podgroup/train", "-n", other)
            assert waits["waits"]["examined"]["rungs"] == told["waits"]["examined"]["rungs"]
            assert waits["fixes"] == told["fixes"]
            etag = session.ask("/now?fragment=").headers["ETag"]
            cluster.kubectl("delete", "pods", "--all", "-n", mine, "--force", "--grace-period=0")
            eventually(lambda: session.ask("/now?fragment=", If_None_Match=etag).status == 200, WAIT)
            eventually(lambda: _equal(cluster, session, "/now", SAME["/now"]), WAIT)
            assert process.end() == 143
            assert not [line for line in process.said if "Traceback" in line]


def _equal(cluster: Cluster, session: ConsoleSession, path: str, words: tuple[str, ...]) -> bool:
    shown, told = session.ask(f"{path}?format=json").json(), printed(cluster, *words)
    if path == "/queue":
        shown, told = without_advice(shown), without_advice(told)
    return bool(shown == told)


@pytest.mark.smoke
def test_what_if_on_the_page_is_that_of_the_command(
    cluster: Cluster, teams: tuple[str, str], tmp_path: Path
) -> None:
    mine, other = teams
    with scheduler(cluster, tmp_path):
        eventually(lambda: len(bound(cluster, mine)) == 2, WAIT)
    with local_console(cluster.kubeconfig) as (_, session):
        session.page("/now")
        change = f"quota/{other}:max.cpu=12"
        shown = session.ask("/what-if?format=json", "POST", f"set={change}").json()
        told = printed(cluster, "elasticquota", "what-if", "--set", change)
        assert shown["supposed"] == told["supposed"]
        assert shown["after"]["quotas"] == told["after"]["quotas"]
        bad = session.ask("/what-if", "POST", f"set=quota/{other}:max.cpu=1&manifest=")
        assert bad.status == 422
        assert "spec.min[cpu]=6 exceeds spec.max[cpu]=1" in bad.body
        assert f'value="quota/{other}:max.cpu=1"' in bad.body
        nonsense = session.ask("/what-if?format=json", "POST", "set=nonsense")
        assert (nonsense.status, "must have the form" in nonsense.json()["message"]) == (422, True)


def test_strangers_are_refused(cluster: Cluster) -> None:
    with local_console(cluster.kubeconfig) as (process, session):
        link = process.told(r"(/\?token=\S+)")[1]
        stranger = ConsoleSession(session.host, {})
        assert stranger.ask(link).status == 403
        assert stranger.ask("/now").status == 403
        assert session.ask("/now", Cookie="muster-console-0=x").status == 403
        assert session.page("/now").status == 200
        assert session.ask("/now", Origin="https://example.com").status == 403
        assert session.ask("/now", Sec_Fetch_Site="cross-site").status == 403
        assert session.ask("/now", Host="example.com").status == 403
        assert session.ask("/nowhere").status == 404
        assert session.ask("/now", "DELETE").status == 405
        assert session.ask("/gangs/no/incubator.such").status == 404
        assert "default-src 'none'" in session.ask("/now").headers["Content-Security-Policy"]


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_signals_while_it_ends_are_no_traceback(cluster: Cluster, first: signal.Signals) -> None:
    with local_console(cluster.kubeconfig) as (process, _):
        process.process.send_signal(first)
        while process.process.poll() is None:
            process.process.send_signal(signal.SIGTERM)
            time.sleep(0.005)
        assert process.close() == 128 + first
        assert "Traceback" not in "".join(process.said)
        assert "Exit" not in "".join(process.said)


def test_a_port_that_is_taken_is_one_line(cluster: Cluster) -> None:
    with local_console(cluster.kubeconfig) as (_, session):
        port = session.host.rpartition(":")[2]
        command = [str(BIN / "kubectl-elasticquota"), "ui", "--no-open", "--port", port]
        done = subprocess.run(
            [*command, "--kubeconfig", str(cluster.kubeconfig)], capture_output=True, text=True, timeout=60
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: cannot listen on 127.0.0.1:{port}: the port is in use\n"
