"""How the tests of faults are spread over workers: by file and by API server.

The tests of a file share a stage on one server. On two servers they have two stages, and two workers may
play them.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.support.clusters.server import SERVERS


def scope_of(nodeid: str) -> str:
    """What one worker plays as a whole: a file, on one server where the tests have a server."""
    file = nodeid.partition("::")[0]
    return next((f"{file}[{server}]" for server in SERVERS if _is_on(server, nodeid)), file)


def _is_on(server: str, nodeid: str) -> bool:
    """Whether the first parameter of a test is the server."""
    parameters = nodeid.partition("[")[2].removesuffix("]")
    return parameters == server or parameters.startswith(f"{server}-")


class FileAndServerScheduling(LoadFileScheduling):
    """xdist's scheduler by files, for which the tests of a file on another server are another file."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scheduling(config: pytest.Config, log: Producer) -> FileAndServerScheduling | None:
    """The scheduler of a run that is spread by files."""
    return FileAndServerScheduling(config, log) if config.getvalue("dist") == "loadfile" else None
