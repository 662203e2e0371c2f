"""The pages in the order of the menu."""

from __future__ import annotations

from kubectl_plugin.console.pages.gangs import GangPage, GangsPage
from kubectl_plugin.console.pages.history import HistoryPage
from kubectl_plugin.console.pages.lending import LendingPage
from kubectl_plugin.console.pages.now import NowPage
from kubectl_plugin.console.pages.page import ConsolePage
from kubectl_plugin.console.pages.queue import QueuePage
from kubectl_plugin.console.pages.topology import TopologyPage
from kubectl_plugin.console.pages.what_if import WhatIfPage


def all_pages() -> tuple[ConsolePage, ...]:
    """Every page of the console."""
    return (
        NowPage(),
        LendingPage(),
        QueuePage(),
        GangsPage(),
        GangPage(),
        TopologyPage(),
        HistoryPage(),
        WhatIfPage(),
    )
