"""Quantities of objects are stored in their shortest form; fractions of bytes bring a warning."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sandbox.errors import StatusError
from sandbox.kinds.builtin import NAMESPACES, builtin_table
from sandbox.store.object_store import ObjectStore
from sandbox.store.registry import Registry, RequestContext

TABLE = builtin_table()


@pytest.fixture
def registry() -> Registry:
    made = Registry(ObjectStore(), TABLE)
    asyncio.run(made.create(NAMESPACES, {"metadata": {"name": "a"}}))
    return made


def create(registry: Registry, plural: str, obj: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The stored object, and the warnings."""
    kind = next(kind for kind in TABLE if kind.plural == plural)
    context = RequestContext(field_validation="Warn")
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"}, **obj}
    return asyncio.run(registry.create(kind, obj, namespace="a", context=context)), context.warnings


def container(**amounts: Any) -> dict[str, Any]:
    return {"name": "main", "image": "busybox:1", "resources": {"requests": amounts}}


def test_amounts_of_a_pod(registry: Registry) -> None:
    spec = {"containers": [container(cpu=0.5, memory="1024Mi")], "overhead": {"cpu": "1000m"}}
    stored, warnings = create(registry, "pods", {"spec": spec})
    assert stored["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert stored["spec"]["overhead"] == {"cpu": "1"}
    assert warnings == []


def test_a_limit_of_a_volume_is_no_resource_and_keeps_its_parts(registry: Registry) -> None:
    volume = {"name": "v", "emptyDir": {"sizeLimit": "0.0001"}}
    stored, _ = create(registry, "pods", {"spec": {"containers": [container()], "volumes": [volume]}})
    assert stored["spec"]["volumes"][0]["emptyDir"]["sizeLimit"] == "100u"


def test_fractions_of_bytes_of_a_pod_and_of_a_template(registry: Registry) -> None:
    spec = {"containers": [container(memory="100m", cpu="100m")], "restartPolicy": "Never"}
    text = 'fractional byte value "100m" is invalid, must be an integer'
    _, warnings = create(registry, "pods", {"spec": spec})
    assert warnings == [f"spec.containers[0].resources.requests[memory]: {text}"]
    _, warnings = create(registry, "jobs", {"spec": {"template": {"spec": spec}}})
    assert warnings == [f"spec.template.spec.containers[0].resources.requests[memory]: {text}"]


def test_a_fraction_of_a_byte_of_a_claim(registry: Registry) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1.5"}}}
    stored, warnings = create(registry, "persistentvolumeclaims", {"spec": spec})
    assert stored["spec"]["resources"]["requests"] == {"storage": "1500m"}
    assert warnings == [
        'spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer'
    ]


REFUSED = {
    "a negative amount": (
        {"cpu": "-1"},
        'spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "a part of a pod": ({"pods": "1.5"}, 'spec.hard[pods]: Invalid value: "1500m": must be an integer'),
    "a part of a device": ({"x/gpu": "0.5"}, 'spec.hard[x/gpu]: Invalid value: "500m": must be an integer'),
}


@pytest.mark.parametrize(("hard", "message"), REFUSED.values(), ids=REFUSED)
def test_a_quota_that_is_refused(registry: Registry, hard: dict[str, str], message: str) -> None:
    with pytest.raises(StatusError) as refusal:
        create(registry, "resourcequotas", {"spec": {"hard": hard}})
    assert message in str(refusal.value)


def test_a_quota_of_requested_devices_takes_a_fraction(registry: Registry) -> None:
    stored, _ = create(registry, "resourcequotas", {"spec": {"hard": {"requests.x/gpu": "0.5"}}})
    assert stored["spec"]["hard"] == {"requests.x/gpu": "500m"}
