"""The hues of quotas are told apart with and without colour vision deficiency, and all text can be read."""

from __future__ import annotations

import itertools
import re
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_plugin.console.access.viewer import Viewer
from kubectl_plugin.console.drawing.colors import COLORS, MARKS, UNOWNED, QuotaColors
from tests.support.builders import make_quota
from tests.support.console_scene import Scene

CSS = files("kubectl_plugin.console").joinpath("static", "console.css").read_text()
# Distance in Lab (CIE76) of any two hues. 2.3 is just noticeable side by side.
LEAST_DISTANCE = {"normal": 25.0, "protan": 15.0, "deutan": 15.0, "tritan": 15.0}
# WCAG 2.2, 1.4.3.
LEAST_CONTRAST = 4.5
# Machado, Oliveira, Fernandes (2009), severity 1, on linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.95047, 1.0, 1.08883])


def palette(dark: bool) -> dict[str, str]:
    """The variables of a mode: those of dark mode stand over those of light mode."""
    light, _, rest = CSS.partition("@media (prefers-color-scheme: dark)")
    found = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", light.partition("* {")[0]))
    if dark:
        found |= dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", rest.partition("* {")[0]))
    return found


def linear(color: str) -> np.ndarray:
    channels = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    ratio = TO_XYZ @ np.clip(rgb, 0, 1) / WHITE
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one: str, other: str) -> float:
    lights = sorted(float(TO_XYZ[1] @ linear(color)) for color in (one, other))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("dark", [False, True])
def test_no_two_hues_look_alike(sight: str, dark: bool) -> None:
    colors = palette(dark)
    seen = {number: lab(SIGHT[sight] @ linear(colors[f"q{number}"])) for number in range(COLORS)}
    near = {
        pair: round(float(np.linalg.norm(seen[pair[0]] - seen[pair[1]])), 1)
        for pair in itertools.combinations(range(COLORS), 2)
    }
    assert {pair: apart for pair, apart in near.items() if apart < LEAST_DISTANCE[sight]} == {}


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    ("text", "ground"),
    [
        *((text, ground) for text in ("ink", "soft", "accent") for ground in ("paper", "raised", "faint")),
        *(("ink", ground) for ground in ("warn-ground", "bad-ground")),
        ("bad", "bad-ground"),
        ("bad", "paper"),
        ("good", "raised"),
    ],
)
def test_text_can_be_read(dark: bool, text: str, ground: str) -> None:
    colors = palette(dark)
    assert contrast(colors[text], colors[ground]) >= LEAST_CONTRAST


@pytest.mark.parametrize("dark", [False, True])
def test_bars_stand_out(dark: bool) -> None:
    """WCAG 2.2, 1.4.11: parts of a picture."""
    colors = palette(dark)
    names = [*(f"q{number}" for number in range(COLORS)), UNOWNED, "nobody"]
    weak = {name: contrast(colors[name], colors["raised"]) for name in names}
    assert {n: value for n, value in weak.items() if value < 3} == {}


def colors(*names: str) -> list[str]:
    found = QuotaColors(names)
    return [found.of(name) for name in names]


def test_a_quota_has_one_colour_for_ever() -> None:
    assert colors("team-a", "team-b", "deep") == ["q1", "q9", "q5"]


def test_quotas_whose_names_collide_have_different_colours() -> None:
    """Their hashes are those of team-b and of team-a; the first by name has the colour of the hash."""
    assert colors("team-b") == colors("team-c") == ["q9"]
    assert colors("team-a", "team-b", "team-c") == ["q1", "q9", "q0"]
    assert colors("team-a", "astro") == ["q2", "q1"]


@given(st.sets(st.text(max_size=20), max_size=60))
def test_no_two_quotas_look_alike_as_long_as_that_can_be(names: set[str]) -> None:
    found = colors(*sorted(names))
    assert len(set(found)) == min(len(names), COLORS * MARKS)
    assert found == colors(*sorted(names, reverse=True))[::-1]


@given(st.sets(st.text(max_size=20), min_size=1, max_size=COLORS), st.data())
def test_a_quota_that_goes_leaves_most_colours(names: set[str], data: st.DataObject) -> None:
    """Only names that gave way to another change."""
    gone = data.draw(st.sampled_from(sorted(names)))
    before, after = QuotaColors(names), QuotaColors(names - {gone})
    kept = {name for name in names - {gone} if QuotaColors([name]).of(name) == before.of(name)}
    assert {name for name in kept if after.of(name) != before.of(name)} == set()


def test_a_namespace_without_a_quota_is_grey() -> None:
    assert QuotaColors(["team-a"]).of("team-b") == UNOWNED


def test_colours_depend_on_what_the_viewer_sees_only() -> None:
    scene = Scene([make_quota(f"{name}/quota").min(cpu=1).max(cpu=2).dict() for name in ("team-b", "team-c")])
    for viewer, color in ((Viewer("boss"), "q0"), (Viewer("user", frozenset({"team-c"})), "q9")):
        with scene.as_viewer(viewer) as client:
            page = client.get("/now").text
        assert f'<i class="dot {color}" aria-hidden="true"></i><span>team-c</span>' in page
