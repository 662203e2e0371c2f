"""`muster-sandbox` starts quickly, stops cleanly, and reports errors on one line."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from sandbox.cli import main
from sandbox.processes import commands
from sandbox.scheduler_config import ALSO_SERVED, at_this_server, profile_names
from scheduler_core.app.config_cli import configure
from scheduler_core.config.flags import Flags

START_SECONDS = 120.0


@contextmanager
def running(*args: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """`muster-sandbox up` with its first lines, up to the one that says how to stop it."""
    command = [sys.executable, "-m", "sandbox", "up", *args]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    lines: list[str] = []
    watchdog = threading.Timer(START_SECONDS, process.kill)
    watchdog.start()
    try:
        while "Ctrl-C" not in "".join(lines):
            lines.append(process.stdout.readline())
            assert lines[-1], f"the sandbox did not come up: {lines}"
        watchdog.cancel()
        yield process, lines
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_up_serves_and_a_signal_stops_it_cleanly(number: signal.Signals, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "config"
    with running("--nodes", "3", "--kubeconfig", str(target)) as (process, lines):
        assert "3 nodes serves at https://127.0.0.1:" in lines[0]
        assert lines[1] == f"export KUBECONFIG={target}\n"
        config = yaml.safe_load(target.read_text())
        assert config["clusters"][0]["cluster"]["server"] in lines[0]
        process.send_signal(number)
        assert process.wait(timeout=60) == 0
        assert process.stdout is not None
        assert process.stdout.read() == "The sandbox has stopped.\n"


def test_a_port_in_use_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "sandbox", "up", "--port", port],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    problem = f"port {port} on 127.0.0.1 is in use; choose another one with --port, or leave --port out"
    assert done.stderr == f"Error: {problem}\n"


def failure(*args: str) -> str:
    """What `muster-sandbox up` prints when it fails."""
    done = CliRunner().invoke(main, ["up", *args])
    assert done.exit_code == 1, done.output
    return done.output


def test_what_a_kept_cluster_refuses_is_one_line(tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    kept = ("--keep", str(keep))
    with running("--nodes", "2", *kept) as (process, lines):
        assert f"(loopback only, kept in {keep})" in lines[0]
        assert failure(*kept) == f"Error: {keep} is used by process {process.pid}\n"
        address = lines[0].split(" serves at ")[1].split()[0]
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    port = address.rpartition(":")[2]
    for nodes in (("--nodes", "3"), ("--node-cpu", "4"), ("--nodes", "2", "--node-gpus", "1")):
        said = failure(*kept, *nodes)
        assert said.startswith(f"Error: {keep} was started with 2 nodes of its own: leave out --nodes, ")
        assert said.count("\n") == 1
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", int(port)))
        taken.listen()
        said = failure(*kept)
    problem = f"port {port} on 127.0.0.1 is in use; {keep} keeps it for its kubeconfig"
    assert said == f"Error: {problem}: end the other program, or give a new --port\n"
    with running(*kept, "--nodes", "2") as (_, again):
        assert address in again[0]
        assert again[0].startswith("A sandbox with 2 nodes ")


@pytest.mark.smoke
def test_a_kubeconfig_that_cannot_be_written_says_what_helps(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    target = tmp_path / "file" / "deep" / "config"
    problem = "cannot write the kubeconfig: Not a directory; name another file with --kubeconfig"
    assert failure("--nodes", "1", "--kubeconfig", str(target)) == f"Error: {target}: {problem}\n"
    said = failure("--nodes", "1", "--kubeconfig", str(tmp_path))
    assert said.startswith(f"Error: {tmp_path}: cannot write the kubeconfig: Is a directory; ")
    assert sorted(tmp_path.parent.glob(f".{tmp_path.name}.*")) == []


BAD_FILES = [
    ("no such file", None, "No such file or directory"),
    ("no YAML", "a: [", "expected"),
    ("a list", "- a", "tree: expected a mapping of units, found list"),
    ("an empty tree", "{}", "tree: names no node"),
    ("the same node twice", "r: {n: {}}\ns: {n: {}}", "tree.s.n: the node 'n' occurs twice"),
    ("a bad capacity", "r: {n: {cpu: lots}}", "tree.r.n: capacity[cpu]: 'lots' is not a quantity"),
    ("a map without a tree", "kind: ConfigMap\ndata: {}", "data.tree: is missing"),
    ("a tree that is no JSON", "kind: ConfigMap\ndata: {tree: '{'}", "data.tree: is not JSON"),
    (
        "a tree of another depth",
        json.dumps({"kind": "ConfigMap", "data": {"tree": '{"n": {}}', "level-names": '["rack", "node"]'}}),
        "tree.n: lies at depth 1, but level-names has 2 levels",
    ),
]


@pytest.mark.smoke
@pytest.mark.parametrize(("sentence", "text", "problem"), BAD_FILES, ids=[row[0] for row in BAD_FILES])
def test_a_bad_topology_is_one_line(sentence: str, text: str | None, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "topology.yaml"
    if text is not None:
        path.write_text(text)
    done = CliRunner().invoke(main, ["up", "--topology", str(path)])
    assert done.exit_code == 1, sentence
    assert done.output.startswith(f"Error: {path}: ")
    assert problem in done.output
    assert done.output.count("\n") == 1


USAGE = [
    ("two ways to make nodes", ["up", "--nodes", "1", "--topology", "x"], "cannot be used together"),
    ("a negative number", ["up", "--nodes", "-1"], "-1 is not in the range"),
    ("a bad quantity", ["up", "--node-cpu", "many"], "node capacity[cpu]: 'many' is not a quantity"),
    ("an unknown command", ["down"], "No such command"),
    (
        "a configuration for nobody",
        ["up", "--config", "x"],
        "--config needs --all",
    ),
    ("a folder as configuration", ["up", "--all", "--config", "/"], "is a directory"),
    ("no speed", ["up", "--speed", "0"], "0.0 is not in the range"),
    ("a speed that is no number", ["up", "--speed", "nan"], "nan is not in the range"),
    ("a rate that is no number", ["load", "--rate", "nan"], "nan is not in the range"),
    ("an endless rate", ["load", "--rate", "inf"], "inf is not in the range"),
    (
        "a real server that is kept",
        ["up", "--keep", "x", "--kube-apiserver", "y"],
        "--keep and --kube-apiserver cannot be used together",
    ),
    (
        "a real server that starts from a file",
        ["up", "--seed-cluster", "x", "--kube-apiserver", "y"],
        "--seed-cluster and --kube-apiserver cannot be used together",
    ),
    ("a load without pods", ["load", "--pods", "0"], "0 is not in the range"),
]


@pytest.mark.smoke
@pytest.mark.parametrize(("sentence", "args", "problem"), USAGE, ids=[row[0] for row in USAGE])
def test_usage_errors(sentence: str, args: list[str], problem: str) -> None:
    done = CliRunner().invoke(main, args)
    assert done.exit_code == 2, sentence
    assert problem in done.output


def test_a_full_disk_is_one_line_that_names_the_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("sandbox.serve.serve", full)
    done = CliRunner().invoke(main, ["up", "--keep", str(tmp_path)])
    assert done.exit_code == 1
    assert done.output == f"Error: {tmp_path}: No space left on device\n"


def executable(path: Path) -> None:
    path.touch(mode=0o755)


def test_a_folder_without_the_programs_is_one_line(tmp_path: Path) -> None:
    def said(folder: Path) -> str:
        done = CliRunner().invoke(main, ["up", "--kube-apiserver", str(folder)])
        assert done.exit_code == 1
        return done.output

    assert said(tmp_path / "none") == f"Error: {tmp_path / 'none'}: is not a directory\n"
    assert said(tmp_path) == f"Error: {tmp_path}: lacks the programs etcd and kube-apiserver\n"
    executable(tmp_path / "etcd")
    (tmp_path / "kube-apiserver").touch(mode=0o644)
    assert said(tmp_path) == f"Error: {tmp_path}: lacks the program kube-apiserver\n"


def test_a_program_that_ends_at_once_is_an_error(tmp_path: Path) -> None:
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).write_text("#!/bin/sh\necho no such flag >&2\nexit 3\n")
        (tmp_path / name).chmod(0o755)
    done = CliRunner().invoke(main, ["up", "--kube-apiserver", str(tmp_path)])
    assert done.exit_code == 1
    assert done.output == "Error: etcd ended with code 3; its log ends:\nno such flag\n"


BAD_CONFIGS = [
    ("no such file", None, "cannot read"),
    ("another kind", "kind: Pod", "Pod"),
    ("an unknown field", "profiless: []", "profiless"),
    ("an unknown plugin", "profiles: [{plugins: {score: {enabled: [{name: None such}]}}}]", "None such"),
    ("what nobody can call", "extenders: [{urlPrefix: 'x', filterVerb: f}]", "not an http or https URL"),
]


@pytest.mark.parametrize(("sentence", "text", "problem"), BAD_CONFIGS, ids=[row[0] for row in BAD_CONFIGS])
def test_a_bad_configuration_starts_nothing(
    sentence: str, text: str | None, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "scheduler.yaml"
    if text is not None:
        head = "apiVersion: kubescheduler.config.k8s.io/v1\n"
        own = "" if "kind:" in text else "kind: KubeSchedulerConfiguration\n"
        path.write_text(f"{head}{own}{text}\n")
    done = CliRunner().invoke(main, ["up", "--all", "--config", str(path)])
    assert done.exit_code == 1, sentence
    assert str(path) in done.output
    assert problem in done.output
    assert "serves at" not in done.output


def test_a_configuration_is_led_to_this_sandbox(tmp_path: Path) -> None:
    given = tmp_path / "given" / "scheduler.yaml"
    given.parent.mkdir()
    given.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1alpha1\nkind: KubeSchedulerConfiguration\n"
        "clientConnection: {kubeconfig: /etc/elsewhere, qps: 7}\n"
        "algorithmSource: {policy: {file: {path: policy.json}}}\n"
    )
    copy = at_this_server(given, tmp_path / "kubeconfig", tmp_path)
    found = yaml.safe_load(copy.read_text())
    assert found["clientConnection"] == {"kubeconfig": str(tmp_path / "kubeconfig"), "qps": 7}
    assert found["algorithmSource"]["policy"]["file"]["path"] == str(given.parent / "policy.json")
    assert "elsewhere" in given.read_text()


@pytest.mark.smoke
def test_the_profiles_of_the_sandbox_are_valid(tmp_path: Path) -> None:
    copy = at_this_server(None, tmp_path / "kubeconfig", tmp_path)
    names = [profile.scheduler_name for profile in configure(str(copy), Flags()).profiles]
    assert names == ["muster-scheduler", *ALSO_SERVED]


def test_muster_is_the_default_scheduler_where_it_is_the_only_one(tmp_path: Path) -> None:
    copy = at_this_server(None, tmp_path / "kubeconfig", tmp_path, only_scheduler=True)
    assert profile_names(copy) == ["muster-scheduler", *ALSO_SERVED, "default-scheduler"]
    # The webhook still assigns pods of namespaces with a quota to `muster-scheduler`.
    assert others_of(copy, tmp_path) == list(ALSO_SERVED)
    alone = tmp_path / "alone.yaml"
    alone.write_text("profiles: [{schedulerName: default-scheduler}, {schedulerName: x}]\n")
    assert others_of(alone, tmp_path) == ["x", "default-scheduler"]


def others_of(config: Path, folder: Path) -> list[str]:
    """The names that the webhook accepts beside `muster-scheduler`."""
    command = commands(folder / "kubeconfig", folder, config)["webhook"]
    return [word.partition("=")[2] for word in command if word.startswith("--other-scheduler=")]


def test_the_webhook_reads_the_topologies_of_all_profiles(tmp_path: Path) -> None:
    copy = at_this_server(None, tmp_path / "kubeconfig", tmp_path)
    command = commands(tmp_path / "kubeconfig", tmp_path, copy)["webhook"]
    assert [word for word in command if word.startswith("--topology-namespace")] == [
        "--topology-namespace=sakkara"
    ]


def test_nodes_come_from_the_file_or_from_the_command_line(tmp_path: Path) -> None:
    seed = tmp_path / "seed.yaml"
    seed.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n}\n")
    done = CliRunner().invoke(main, ["up", "--seed-cluster", str(seed), "--nodes", "2"])
    assert done.exit_code == 2
    assert f"{seed} has nodes: leave out --nodes, --topology and --node-..." in done.output


def test_version() -> None:
    assert CliRunner().invoke(main, ["version"]).output.startswith("muster-sandbox 0.")


def test_the_engine_is_loaded_by_the_replay_and_by_scenario_files_alone() -> None:
    """The sandbox starts in the half of the time without it."""
    asked = "import sys, sandbox.cli, sandbox.serve; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    assert {"numpy", "sandbox.replay.cli", "scheduler_core.engine.scheduler"} & {*modules.split()} == set()
    assert {"demo", "load", "replay", "up", "version"} <= {*main.list_commands(click.Context(main))}
