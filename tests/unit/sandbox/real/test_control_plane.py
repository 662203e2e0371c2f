"""Programs of a real control plane are found in a directory, and started from anywhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sandbox.real.control_plane import (
    AddressInUse,
    Binaries,
    ControlPlane,
    ControlPlaneFailed,
    binaries_in,
)
from sandbox.real.controllers import JOBSET, JOBSET_CRD, MANAGER, controllers_in
from scheduler_core.errors import ConfigError


def program(folder: Path, name: str) -> None:
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


def test_programs_of_a_relative_directory_start_in_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("etcd", "kube-apiserver"):
        program(tmp_path, name)
    monkeypatch.chdir(tmp_path.parent)
    assert binaries_in(Path(tmp_path.name)) == Binaries(tmp_path / "etcd", tmp_path / "kube-apiserver")


# Enough of etcd for a control plane to go on.
ETCD = """#!{python}
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

flags = dict(flag.split("=", 1) for flag in sys.argv[1:] if "=" in flag)
HTTPServer(("127.0.0.1", int(flags["--listen-client-urls"].rpartition(":")[2])), Healthy).serve_forever()
"""


@pytest.mark.parametrize(
    ("port", "starts"), [(0, 3), (34567, 1)], ids=["any port", "a port that was asked for"]
)
def test_an_api_server_moves_only_where_any_port_will_do(tmp_path: Path, port: int, starts: int) -> None:
    record, etcd, apiserver = (tmp_path / name for name in ("ports", "etcd", "kube-apiserver"))
    etcd.write_text(ETCD.format(python=sys.executable))
    apiserver.write_text(
        f"#!/bin/sh\nfor flag; do case $flag in --secure-port=*) echo $flag >> {record};; esac; done\n"
        "echo 'bind: address already in use' >&2\nexit 1\n"
    )
    for file in (etcd, apiserver):
        file.chmod(0o755)
    with pytest.raises(AddressInUse, match="kube-apiserver found its port taken"):
        ControlPlane(Binaries(etcd, apiserver), port=port).__enter__()
    ports = record.read_text().splitlines()
    assert len(ports) == starts
    assert (f"--secure-port={port}" in ports) == bool(port)


@pytest.mark.parametrize(
    ("words", "starts"),
    [("listen tcp 127.0.0.1:2379: bind: address already in use", 3), ("member count is unequal", 1)],
)
def test_a_program_whose_port_was_taken_starts_again(tmp_path: Path, words: str, starts: int) -> None:
    record, etcd = tmp_path / "starts", tmp_path / "etcd"
    etcd.write_text(f"#!/bin/sh\necho started >> {record}\necho '{words}' >&2\nexit 1\n")
    etcd.chmod(0o755)
    with (
        pytest.raises(ControlPlaneFailed, match=words),
        ControlPlane(Binaries(etcd, tmp_path / "kube-apiserver")),
    ):
        pass
    assert record.read_text().splitlines() == ["started"] * starts


def test_controllers_come_with_the_definition_of_job_sets(tmp_path: Path) -> None:
    program(tmp_path, MANAGER)
    with pytest.raises(ConfigError, match="lacks the program jobset"):
        controllers_in(tmp_path)
    program(tmp_path, JOBSET)
    with pytest.raises(ConfigError, match=JOBSET_CRD):
        controllers_in(tmp_path)
    (tmp_path / JOBSET_CRD).write_text("kind: CustomResourceDefinition\nmetadata: {name: jobsets}\n")
    (definition,) = controllers_in(tmp_path).definitions
    assert definition["metadata"]["name"] == "jobsets"
