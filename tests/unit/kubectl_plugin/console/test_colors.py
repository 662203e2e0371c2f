"""The hues of quotas are told apart with and without colour vision deficiency, and all text can be read."""

from __future__ import annotations

import itertools
import re
from importlib.resources import files

import numpy as np
import pytest

from kubectl_plugin.console.drawing.colors import COLORS, color_class

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
    weak = {n: contrast(colors[f"q{n}"], colors["raised"]) for n in range(COLORS)}
    assert {n: value for n, value in weak.items() if value < 3} == {}


def test_a_quota_has_one_colour_for_ever() -> None:
    assert [color_class(name) for name in ("team-a", "team-b", "astro", "deep")] == ["q1", "q9", "q1", "q5"]
