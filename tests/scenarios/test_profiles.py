"""Every file in profiles/ carries what is right in its header; the loader, the view and the CLI must agree.

`effective` lists plugins per point (points that are left out are not compared), `args` holds arguments that
the first profile must have, `convert` what the converted document must have and whether it `warns`.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from scheduler_core.app.config_cli import config_group
from scheduler_core.config import ConfigErrors, load_config, start_up_errors
from scheduler_core.config.convert import convert_document
from scheduler_core.config.documents import parse_document
from scheduler_core.config.plugins import LEFT_OUT
from scheduler_core.config.render import view
from scheduler_core.config.validation import validate
from scheduler_core.config.versions import read_document
from scheduler_core.errors import ConfigError
from tests.support.expectations import expectation

FILES = sorted((Path(__file__).parent / "profiles").glob("*.yaml"))


@cache
def expected_of(path: Path) -> dict[str, Any]:
    expected: dict[str, Any] = expectation(path.read_text(), "expected")
    return expected


def chosen(valid: bool) -> list[Any]:
    return [pytest.param(f, id=f.stem) for f in FILES if expected_of(f)["valid"] is valid]


def converted() -> list[Any]:
    return [pytest.param(f, id=f.stem) for f in FILES if "convert" in expected_of(f)]


def contains(found: Any, wanted: Any) -> bool:
    """Whether `wanted` is part of `found`: dicts by subset, everything else by equality."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(key in found and contains(found[key], value) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(contains, found, wanted))
    return bool(found == wanted)


def names(listed: list[dict[str, Any]]) -> list[Any]:
    return [[p["name"], p["weight"]] if "weight" in p else p["name"] for p in listed]


def implemented(listed: list[Any]) -> list[Any]:
    return [p for p in listed if (p if isinstance(p, str) else p[0]) not in LEFT_OUT]


def staged_errors(text: str) -> tuple[str, list[ConfigError]]:
    try:
        config = read_document(parse_document(text))
    except ConfigErrors as found:
        return "decode", list(found.errors)
    errors = validate(config)
    if errors:
        return "validate", errors
    return "instantiate", start_up_errors(config)


def test_there_are_samples_of_both_kinds() -> None:
    assert len(chosen(True)) > 30
    assert len(chosen(False)) > 50


@pytest.mark.parametrize("path", chosen(True))
def test_a_valid_file_runs_the_plugins_that_its_header_lists(path: Path) -> None:
    expected = expected_of(path)
    shown = msgspec.json.decode(msgspec.json.encode(view(load_config(path.read_text(), path.name))))
    profiles = {profile["schedulerName"]: profile for profile in shown["profiles"]}
    if "profiles" in expected:
        assert list(profiles) == expected["profiles"]
    for name, points in expected.get("effective", {}).items():
        for point, listed in points.items():
            assert names(profiles[name]["plugins"][point]) == implemented(listed), point
    entries = shown["profiles"][0]["pluginConfig"]
    if "plugin_config" in expected:
        assert [entry["name"] for entry in entries] == expected["plugin_config"]
    for plugin, args in expected.get("args", {}).items():
        (entry,) = [entry for entry in entries if entry["name"] == plugin]
        assert contains(entry["args"], args), entry


@pytest.mark.parametrize("path", chosen(False))
def test_an_invalid_file_fails_at_its_stage_with_its_message(path: Path) -> None:
    expected = expected_of(path)
    stage, errors = staged_errors(path.read_text())
    assert stage == expected["stage"]
    matching = [error for error in errors if expected["error_contains"] in str(error)]
    assert matching, errors
    if "error_field" in expected:
        assert any(error.path.startswith(expected["error_field"]) for error in matching), errors
    if "error_type" in expected:
        assert any(error.kind == expected["error_type"] for error in matching), errors


@pytest.mark.parametrize("path", chosen(True))
def test_the_command_line_accepts_a_valid_file(path: Path) -> None:
    result = CliRunner().invoke(config_group, ["view", str(path), "-o", "json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["profiles"]
    assert CliRunner().invoke(config_group, ["validate", str(path)]).exit_code == 0


@pytest.mark.parametrize("path", chosen(False))
def test_the_command_line_refuses_an_invalid_file_with_one_line_per_error(path: Path) -> None:
    for command in ("validate", "view"):
        result = CliRunner().invoke(config_group, [command, str(path)])
        assert result.exit_code == 1
        assert not result.stdout
        lines = result.stderr.splitlines()
        assert lines
        assert all(line.startswith(f"{path}: ") for line in lines)
        assert expected_of(path)["error_contains"] in result.stderr


@pytest.mark.parametrize("path", converted())
def test_conversion_writes_the_document_of_the_header(path: Path) -> None:
    wanted = expected_of(path)["convert"]
    document, warnings = convert_document(path.read_text(), wanted["to"])
    assert contains(document, wanted["document"]), document
    assert bool(warnings) is wanted.get("warns", not expected_of(path)["valid"])


@pytest.mark.parametrize("path", chosen(True))
def test_a_converted_file_runs_the_same_plugins(path: Path) -> None:
    text = path.read_text()
    before = view(load_config(text))
    document, _ = convert_document(text, "v1")
    assert view(load_config(yaml.safe_dump(document))) == before
