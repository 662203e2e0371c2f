"""The tests of faults are spread over workers by file and by API server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from xdist.remote import Producer

from tests.support.faults.spread import FileAndServerScheduling, scheduling, scope_of

FILE = "tests/faults/test_crashes.py"
SCOPES = {
    "one server alone": (f"{FILE}::test_one[sandbox]", f"{FILE}[sandbox]"),
    "a server and a case": (f"{FILE}::test_one[sandbox-a case]", f"{FILE}[sandbox]"),
    "the other server": (f"{FILE}::test_one[kube-apiserver-a case]", f"{FILE}[kube-apiserver]"),
    "a case that speaks of a server": (f"{FILE}::test_one[a sandbox-like case]", FILE),
    "no parameter": (f"{FILE}::test_one", FILE),
}


@pytest.mark.parametrize(("nodeid", "scope"), SCOPES.values(), ids=SCOPES)
def test_a_worker_plays_a_file_on_one_server(nodeid: str, scope: str) -> None:
    assert scope_of(nodeid) == scope


@pytest.mark.parametrize(("dist", "made"), [("loadfile", FileAndServerScheduling), ("load", type(None))])
def test_only_a_run_that_is_spread_by_files_is_spread_by_servers(dist: str, made: type) -> None:
    option = SimpleNamespace(loadscopereorder=False)
    config: Any = SimpleNamespace(getvalue={"dist": dist, "tx": ["3*popen"]}.__getitem__, option=option)
    assert type(scheduling(config, Producer("test"))) is made
