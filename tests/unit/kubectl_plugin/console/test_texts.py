"""Texts in pages: times become ages, names break behind their slashes, and nothing is taken for markup."""

from __future__ import annotations

import pytest

from kubectl_plugin.console.web.app import moments, path

TIME = "2026-11-27T15:07:30Z"
SHOWN = f'<time datetime="{TIME}">{TIME}</time>'


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (f"2 for team-b/pod at {TIME}", f"2 for team-b/pod at {SHOWN}"),
        (f"{TIME} to {TIME}", f"{SHOWN} to {SHOWN}"),
        ("2026-11-27", "2026-11-27"),
        (f"<b>{TIME}", f"&lt;b&gt;{SHOWN}"),
        ("a\u202eb", "a\\u202eb"),
    ],
)
def test_times_in_a_text(given: str, shown: str) -> None:
    assert moments(given) == shown


def test_a_name_breaks_behind_its_slashes() -> None:
    assert path("flavor.muster.dev/h100") == "flavor.muster.dev/<wbr>h100"
    assert path("<b>/x") == "&lt;b&gt;/<wbr>x"
