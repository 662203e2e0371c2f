"""The ConfigMap of an old Policy: which one is read, of which cluster, and that the connection is closed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from scheduler_core.app import policy_config_map
from scheduler_core.app.policy_config_map import config_maps_of
from scheduler_core.kube.errors import Forbidden

MAP = {"metadata": {"name": "policy"}, "data": {"policy.cfg": "{}"}}
EMPTY = {"metadata": {"name": "policy"}}
OTHER = {"metadata": {"name": "other"}, "data": {"a": "b"}}

# name, what the server lists, what is read
LISTED: list[tuple[str, list[dict[str, Any]] | None, dict[str, str] | None]] = [
    ("the one", [MAP], {"policy.cfg": "{}"}),
    ("nothing", [], None),
    ("no list", None, None),
    ("one without data", [EMPTY], {}),
    ("another one", [OTHER], None),
    ("beside another one", [OTHER, MAP], {"policy.cfg": "{}"}),
]


class Server:
    """Stands for the client: lists, or refuses."""

    def __init__(self, items: list[dict[str, Any]] | None, error: Exception | None = None) -> None:
        self.items = items
        self.error = error
        self.closed = 0
        self.asked: list[Any] = []
        self.session = SimpleNamespace(close=self._close)

    def _close(self) -> None:
        self.closed += 1

    def get_page(self, *where: Any, **how: Any) -> Any:
        self.asked.append((*where[1:], how))
        if self.error is not None:
            raise self.error
        items = (
            self.items if self.items is None else [msgspec.Raw(msgspec.json.encode(i)) for i in self.items]
        )
        return SimpleNamespace(items=items)


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The servers that were connected to; the first is made by the test."""
    found: list[Any] = []
    monkeypatch.setattr(
        policy_config_map, "connect", lambda given: (found.append(given), (found[0], None))[1]
    )
    monkeypatch.setattr(policy_config_map, "Client", lambda session, retry_budget: found[0])
    return found


@pytest.mark.parametrize(("items", "data"), [case[1:] for case in LISTED], ids=[case[0] for case in LISTED])
def test_what_is_read(items: Any, data: dict[str, str] | None, reached: list[Any]) -> None:
    server = Server(items)
    reached.append(server)
    assert config_maps_of()("kube-system", "policy", "") == data
    assert server.asked == [("kube-system", {"field_selector": "metadata.name=policy"})]
    assert server.closed == 1


def test_a_refusal_closes_the_connection_too(reached: list[Any]) -> None:
    server = Server(None, Forbidden(403, "Forbidden", "no"))
    reached.append(server)
    with pytest.raises(Forbidden):
        config_maps_of()("kube-system", "policy", "")
    assert server.closed == 1


@pytest.mark.parametrize(
    ("given", "own", "used"), [("", "of the file", "of the file"), ("given", "of the file", "given")],
    ids=["that of the configuration", "the given one before it"],
)  # fmt: skip
def test_whose_kubeconfig_is_used(given: str, own: str, used: str, reached: list[Any]) -> None:
    reached.append(Server([MAP]))
    config_maps_of(kubeconfig=given, context="c")("kube-system", "policy", own)
    assert (reached[1].kubeconfig, reached[1].context) == (used, "c")
