"""What a plugin implements is what `isinstance` says of the Protocols of the extension points."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from scheduler_core.config.load import muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.framework.interface import (
    POINTS,
    ConcernPlugin,
    EventsPlugin,
    FilterPlugin,
    MeetsOthersPlugin,
    NormalizePlugin,
    Plugin,
    RoomPlugin,
    implements,
)
from scheduler_core.framework.registry import build_profiles
from scheduler_core.plugins.registry import FACTORIES

CONTRACTS = {*POINTS.values(), ConcernPlugin, EventsPlugin, MeetsOthersPlugin, NormalizePlugin, RoomPlugin}


def made(*members: str, **more: Any) -> Any:
    return SimpleNamespace(**dict.fromkeys(members, len), **more)


@pytest.mark.parametrize(
    ("plugin", "answer"),
    [
        pytest.param(made("name", "scope", "filter", "reasons"), True, id="all of it"),
        pytest.param(made("name", "scope", "filter"), False, id="no reasons"),
        pytest.param(made("scope", "filter", "reasons"), False, id="no name, which the base asks for"),
        pytest.param(made("name", "scope", "filter", reasons=None), False, id="reasons are None"),
    ],
)
def test_all_members_are_needed(plugin: Any, answer: bool) -> None:
    assert implements(plugin, FilterPlugin) is answer
    assert isinstance(plugin, FilterPlugin) is answer


@pytest.mark.parametrize("contract", sorted(CONTRACTS, key=lambda kind: kind.__name__))
def test_the_answer_is_that_of_isinstance(contract: Any) -> None:
    plugins: list[Plugin] = [
        plugin
        for profile in build_profiles(muster_config(), FACTORIES, KNOWN_PLUGINS).values()
        for plugin in profile.plugins
    ]
    assert [implements(plugin, contract) for plugin in plugins] == [
        isinstance(plugin, contract) for plugin in plugins
    ]
