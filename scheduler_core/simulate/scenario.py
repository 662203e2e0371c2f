"""Reads scenario files strictly, with the path of every problem (docs/cli.md, `simulate`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from typing import Any, Final

import msgspec
import yaml

from scheduler_core.config import SchedulerConfiguration, load_config
from scheduler_core.config.load import muster_config
from scheduler_core.errors import ConfigError
from scheduler_core.model.duration import parse_duration
from scheduler_core.model.pods.requests import ResizeRule
from scheduler_core.model.timestamps import parse_time
from scheduler_core.simulate.expected_form import check_expectation
from scheduler_core.simulate.format import ScenarioForm, StepForm, check_keys, keys_of
from scheduler_core.simulate.kinds import check_kind

START: Final = parse_time("2026-01-01T00:00:00Z")
# As kubectl and people write it; what follows the minor version counts for nothing here.
_VERSION: Final = re.compile(r"v?(\d{1,3})\.(\d{1,3})(\.\d[\w.+-]{0,60})?")
# The latest time of the clock that is a valid date.
_LONGEST: Final = 100 * 365 * 86400.0

Objects = tuple[dict[str, Any], ...]


class ScenarioStep(msgspec.Struct, frozen=True):
    """The objects to apply, the seconds to advance the clock, and the expectations."""

    create: Objects = ()
    update: Objects = ()
    delete: Objects = ()
    advance: float = 0.0
    expect: dict[str, Any] | None = None


class Scenario(msgspec.Struct, frozen=True):
    """A scenario: the initial objects and the steps.

    `rule`: what resized pods count for; None where the file names no version of Kubernetes.
    """

    name: str
    file: str
    config: SchedulerConfiguration
    now: float
    objects: Objects
    steps: tuple[ScenarioStep, ...]
    rule: ResizeRule | None = None


class _Loader(yaml.CSafeLoader):
    """YAML without the implicit timestamps: Kubernetes times stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if tag != "tag:yaml.org,2002:timestamp"]
    for first, pairs in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def load_documents(text: str, file: str = "") -> list[Any]:
    """The YAML documents of a file that are not empty; times stay text. Raises ConfigError."""
    try:
        documents = list(yaml.load_all(text, _Loader))
    except yaml.YAMLError as error:
        raise ConfigError("", f"not valid YAML: {_one_line(error)}", file=file) from None
    return [document for document in documents if document is not None]


def load_scenarios(text: str, file: str = "") -> list[Scenario]:
    """All scenarios of a file (YAML documents). Raises ConfigError naming file and path."""
    found = load_documents(text, file)
    if not found:
        raise ConfigError("", "no scenario in the file", file=file)
    try:
        return [_scenario(document, file) for document in found]
    except ConfigError as error:
        raise ConfigError(error.path, error.problem, kind=error.kind, file=file) from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _scenario(document: Any, file: str) -> Scenario:
    data = _mapping(document, "")
    check_keys(data, keys_of(ScenarioForm), "")
    objects = _objects(data.get("objects"), "objects")
    steps = data.get("steps", [])
    steps = [] if steps is None else steps
    if not isinstance(steps, list):
        raise ConfigError("steps", "must be a list")
    config = data.get("config")
    return Scenario(
        name=str(data.get("name") or file),
        file=file,
        config=load_config(yaml.safe_dump(config), file) if config else muster_config(),
        now=_now(data.get("now")),
        objects=objects,
        steps=tuple(_step(step, f"steps[{i}]") for i, step in enumerate(steps)),
        rule=_rule(data.get("kubernetesVersion")),
    )


def _rule(value: Any) -> ResizeRule | None:
    if value is None:
        return None
    found = _VERSION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ConfigError("kubernetesVersion", f'{value!r} is not a version in quotes, as "1.36"')
    return ResizeRule.of((int(found[1]), int(found[2])))


def _step(document: Any, path: str) -> ScenarioStep:
    data = _mapping(document, path)
    check_keys(data, keys_of(StepForm), path)
    expect = data.get("expect")
    if expect is not None:
        check_expectation(expect, f"{path}.expect")
    return ScenarioStep(
        create=_objects(data.get("create"), f"{path}.create"),
        update=_objects(data.get("update"), f"{path}.update"),
        delete=_objects(data.get("delete"), f"{path}.delete"),
        advance=_duration(data.get("advance"), f"{path}.advance"),
        expect=expect,
    )


def _mapping(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(path, f"must be a mapping, not {type(value).__name__}")
    return value


def _objects(value: Any, path: str) -> Objects:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ConfigError(path, "must be a list of objects")
    for i, item in enumerate(value):
        place = f"{path}[{i}]"
        data = _mapping(item, place)
        check_kind(data, place)
        for part in ("metadata", "spec", "status"):
            if data.get(part) is not None:
                _mapping(data[part], f"{place}.{part}")
    return tuple(value)


def _now(value: Any) -> float:
    if value is None:
        return START
    try:
        return parse_time(str(value), zone=UTC)
    except ValueError:
        raise ConfigError("now", f"{value!r} is not an RFC 3339 time") from None


def _duration(value: Any, path: str) -> float:
    """Seconds of a duration like 30s, 1m30s or 1.5h; a bare number is seconds."""
    if value is None:
        return 0.0
    seconds: float | None = None
    if isinstance(value, str):
        seconds = parse_duration(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    if seconds is None or not 0 <= seconds <= _LONGEST:
        rule = "is not a duration like 30s or 1m30s, from 0s to 100 years"
        raise ConfigError(path, f"{value!r} {rule}")
    return seconds
