"""The form of scenario files as types: the reader takes its keys from them, editors their JSON schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any

import msgspec

from scheduler_core.errors import ConfigError
from scheduler_core.simulate.kinds import api_versions

Map = dict[str, Any]


def _told(description: str, *examples: Any) -> msgspec.Meta:
    return msgspec.Meta(description=description, examples=list(examples) or None)


class ObjectForm(msgspec.Struct, frozen=True, rename="camel"):
    """An object in the form of the Kubernetes API. Its other fields are those of its kind."""

    kind: str
    api_version: Annotated[
        str | None, _told("The API group and version; without one, the first that serves the kind.")
    ] = None
    metadata: Annotated[Map | None, _told("Name, namespace (without one: default), labels, annotations.")] = (
        None
    )
    spec: Map | None = None
    status: Map | None = None


Objects = list[ObjectForm] | None
Pods = list[str] | None


class SomeOf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """So many of these pods, whichever they are."""

    count: Annotated[int, msgspec.Meta(ge=0, description="How many of the pods.")]
    pods: Annotated[list[str], _told("Pods, each as namespace/name.")] = msgspec.field(name="from")


class ExpectedEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event of the step. Keys that are left out may have any value."""

    object: Annotated[Any, _told("Kind and name of the object.", "Pod team-a/train-0")] = None
    reason: Annotated[Any, _told("The reason.", "FailedScheduling", "Preempted")] = None
    contains: Annotated[Any, _told("A part of the message.")] = None


class ExpectedCondition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A condition of a group. Keys that are left out may have any value."""

    type: Annotated[Any, _told("The type of the condition.", "PodGroupScheduled")]
    status: Annotated[Any, _told("The status.", "True", "False")] = None
    reason: Annotated[Any, _told("The reason.")] = None
    contains: Annotated[Any, _told("A part of the message.")] = None
    observed_generation: Annotated[Any, _told("The generation that the condition is about.")] = None
    kind: Annotated[Any, _told("The kind of the group, where several have this name.")] = None
    api_version: Annotated[Any, _told("The API of the group, where several have this name.")] = None


class Expectations(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What must hold at the end of a step."""

    bound: Annotated[Pods, _told("Pods with a node, each as namespace/name.")] = None
    bound_on: Annotated[Map | None, _told("Pod to the node that it is on.", {"team-a/train-0": "n1"})] = None
    bound_any: Annotated[SomeOf | None, _told("How many of some pods have a node.")] = None
    pending: Annotated[Pods, _told("Pods without a node, each as namespace/name.")] = None
    awake: Annotated[
        Pods, _told("Pods that the step woke: the scheduler tried them because something happened.")
    ] = None
    asleep: Annotated[Pods, _told("Pods that wait, and that nothing in the step woke.")] = None
    evicted: Annotated[Pods, _told("All pods that the step evicts; an empty list: none.")] = None
    evicted_any: Annotated[SomeOf | None, _told("How many of some pods the step evicts.")] = None
    status: Annotated[
        dict[str, Map] | None,
        _told(
            "Object to fields of its status; quantities are compared by value.",
            {"ElasticQuota team-a/quota": {"used": {"cpu": 4}}},
        ),
    ] = None
    conditions: Annotated[
        dict[str, ExpectedCondition | list[ExpectedCondition] | None] | None,
        _told("namespace/name of a group to a condition or several; null: it has none."),
    ] = None
    budgets: Annotated[
        Map | None, _told("namespace/name of each protected group to the minAvailable of its budget.")
    ] = None
    events: Annotated[list[ExpectedEvent] | None, _told("Events of the step.")] = None


class StepForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A step: the clock advances, objects change, the scheduler runs until nothing changes."""

    name: Annotated[Any, _told("What the step shows, for readers.")] = None
    advance: Annotated[
        str | Annotated[float, msgspec.Meta(ge=0)] | None,
        _told("How far the clock advances first; a number is seconds.", "30s", "1m30s", 90),
    ] = None
    delete: Annotated[Objects, _told("Objects to remove: kind, namespace and name are enough.")] = None
    update: Annotated[Objects, _told("Objects to replace, whole.")] = None
    create: Annotated[Objects, _told("Objects to add.")] = None
    expect: Annotated[Expectations | None, _told("What must hold at the end of the step.")] = None


class ScenarioForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A cluster in a file, and what happens in it. A file may have several, as YAML documents."""

    name: Annotated[Any, _told("What the scenario shows.")] = None
    description: Annotated[Any, _told("More about it, for readers.")] = None
    config: Annotated[
        Map | None, _told("A KubeSchedulerConfiguration; without one, Muster's own is in effect.")
    ] = None
    kubernetes_version: Annotated[
        str | None,
        _told("The version of Kubernetes as in which resized pods count; without one, the newest.", "1.36"),
    ] = None
    now: Annotated[Any, _told("The time at the start.", "2026-01-01T00:00:00Z")] = None
    objects: Annotated[Objects, _told("The objects at the start.")] = None
    steps: Annotated[list[StepForm] | None, _told("What happens, one after another.")] = None


def keys_of(form: type[msgspec.Struct]) -> tuple[str, ...]:
    """The keys that a mapping of this form may have, as a file writes them."""
    return form.__struct_encode_fields__


def check_keys(data: Iterable[Any], known: Iterable[str], path: str) -> None:
    """Raises ConfigError for a key that is not known, with the known ones and the nearest of them."""
    known = tuple(known)
    for key in data:
        if key not in known:
            place = f"{path}.{key}" if path else str(key)
            raise ConfigError(place, f"unknown key; known are {', '.join(known)}{nearest(key, known)}")


def nearest(word: Any, known: Iterable[str]) -> str:
    """` (did you mean X?)`, or nothing if no known word is near."""
    close = get_close_matches(str(word).lower(), near := {item.lower(): item for item in known}, n=1)
    return f" (did you mean {near[close[0]]}?)" if close else ""


def scenario_schema() -> dict[str, Any]:
    """The JSON schema of a scenario, for editors (docs/cli.md, `simulate`)."""
    (body,), parts = msgspec.json.schema_components([ScenarioForm], ref_template="#/$defs/{name}")
    kinds = api_versions()
    found = parts[ObjectForm.__name__]
    found["properties"]["kind"] = {"enum": sorted(kinds)}
    found["allOf"] = [
        {
            "if": {"properties": {"kind": {"enum": sorted(alike)}}},
            "then": {"properties": {"apiVersion": {"enum": [*versions, "", None]}}},
        }
        for versions, alike in sorted(_by_versions(kinds).items())
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Scenario of kubectl elasticquota simulate",
        **body,
        "$defs": dict(sorted(parts.items())),
    }


def _by_versions(kinds: Mapping[str, Sequence[str]]) -> dict[tuple[str, ...], list[str]]:
    found: dict[tuple[str, ...], list[str]] = {}
    for kind, versions in kinds.items():
        found.setdefault(tuple(versions), []).append(kind)
    return found
