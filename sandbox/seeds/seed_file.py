"""Reads the objects of a file: a scenario, or objects as `kubectl get -o yaml` prints them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from sandbox.objects import Obj, copy_json
from sandbox.seeds.seed import Seed
from scheduler_core.errors import ConfigError
from scheduler_core.model.timestamps import format_time, parse_time
from scheduler_core.simulate.kinds import api_version_of
from scheduler_core.simulate.scenario import load_documents, load_scenarios

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_CLOCK_PARTS: Final = ("metadata", "status")


def read_seed(path: Path, now: float) -> Seed:
    """Read a file; `now` is the wall clock, to which the times of a scenario with a clock are moved.

    Raises ConfigError with file and field.
    """
    file = str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError("", error.strerror or str(error), file=file) from None
    except UnicodeError as error:
        raise ConfigError("", f"is not UTF-8: {error}", file=file) from None
    documents = load_documents(text, file)
    if not documents:
        raise ConfigError("", "has no objects", file=file)
    if any(isinstance(document, dict) and "kind" not in document for document in documents):
        return _scenario_seed(text, file, documents, now)
    try:
        return Seed(file, tuple(_plain_objects(documents)))
    except ConfigError as error:
        raise ConfigError(error.path, error.problem, kind=error.kind, file=file) from None


def _scenario_seed(text: str, file: str, documents: list[Any], now: float) -> Seed:
    scenarios = load_scenarios(text, file)
    if len(scenarios) > 1:
        raise ConfigError("", f"has {len(scenarios)} scenarios; a cluster starts from one", file=file)
    (scenario,) = scenarios
    shift = now - scenario.now if documents[0].get("now") is not None else 0.0
    objects = (
        (f"objects[{number}]", _completed(_moved({**obj, "apiVersion": api_version_of(obj)}, shift)))
        for number, obj in enumerate(scenario.objects)
    )
    return Seed(file, tuple(objects), documents[0].get("config"), len(scenario.steps))


def _completed(obj: Obj) -> Obj:
    """The object; containers of pods get the names and images that a scenario may leave out."""
    spec = obj.get("spec")
    containers = spec.get("containers") if obj["kind"] == "Pod" and spec else None
    if isinstance(containers, list) and all(isinstance(container, dict) for container in containers):
        named = [{"name": f"c{i}", "image": "pause", **each} for i, each in enumerate(containers)]
        return {**obj, "spec": {**(spec or {}), "containers": named}}
    return obj


def _plain_objects(documents: list[Any]) -> Iterator[tuple[str, Obj]]:
    for number, document in enumerate(documents):
        place = f"[{number}]" if len(documents) > 1 else ""
        obj = _checked(document, place)
        items = obj.get("items")
        if obj["kind"].endswith("List") and isinstance(items, list):
            for index, item in enumerate(items):
                where = f"{place}.items[{index}]".lstrip(".")
                yield where, _checked(item, where)
        else:
            yield place, obj


def _checked(value: Any, place: str) -> Obj:
    if not isinstance(value, dict):
        raise ConfigError(place, f"must be an object, not {type(value).__name__}")
    prefix = f"{place}." if place else ""
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise ConfigError(f"{prefix}{field}", "is required", kind="Required")
    for field in ("metadata", "spec", "status"):
        if not isinstance(value.get(field) or {}, dict):
            raise ConfigError(f"{prefix}{field}", f"must be a mapping, not {type(value[field]).__name__}")
    return value


def _moved(obj: Obj, seconds: float) -> Obj:
    """A copy of the object whose times in metadata and status are later by so many seconds."""
    if not seconds:
        return copy_json(obj)
    return {
        key: _mapped(value, lambda text: _later(text, seconds)) if key in _CLOCK_PARTS else copy_json(value)
        for key, value in obj.items()
    }


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


def _later(text: str, seconds: float) -> str:
    if not _TIME.fullmatch(text):
        return text
    try:
        return format_time(parse_time(text) + seconds)
    except ValueError:
        return text
