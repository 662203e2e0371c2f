"""What a patch leaves in the store: defaults, refusals, their codes, as recorded from kube-apiserver 1.37."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sandbox.errors import StatusError
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import BUILTIN, CONFIG_MAPS, NAMESPACES, builtin_table
from sandbox.store.object_store import ObjectStore
from sandbox.store.patching import JSON, MERGE, STRATEGIC
from sandbox.store.registry import Registry

DEPLOYMENTS = next(kind for kind in BUILTIN if kind.kind == "Deployment")


def stored(kind: ApiKind, obj: dict[str, Any], body: Any, media: str) -> dict[str, Any]:
    """The object after its creation and one patch."""

    async def act() -> dict[str, Any]:
        registry = Registry(ObjectStore(), builtin_table())
        await registry.create(NAMESPACES, {"metadata": {"name": "a"}})
        await registry.create(kind, obj, namespace="a")
        return await registry.patch(kind, "a", obj["metadata"]["name"], body, content_type=media)

    return asyncio.run(act())


def config() -> dict[str, Any]:
    meta = {"name": "c", "namespace": "a"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "1"}}


def deployment() -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "a"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template},
    }


def in_template(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("kind", "patch", "media", "code", "message"),
    [
        pytest.param(
            CONFIG_MAPS, {"metadata": {"name": "d"}}, MERGE, 400, r"name of the object \(d\)", id="name"
        ),
        pytest.param(CONFIG_MAPS, {"data": {"a": 5}}, MERGE, 422, "cannot unmarshal number", id="a number"),
        pytest.param(
            CONFIG_MAPS, {"data": {"a~2/": "x"}}, MERGE, 422, "a valid config key", id="no file name"
        ),
        pytest.param(CONFIG_MAPS, {"data": {"..a": "x"}}, MERGE, 422, "a valid config key", id="a parent"),
        pytest.param(
            DEPLOYMENTS, {"spec": {"replicas": "2"}}, STRATEGIC, 422, "cannot unmarshal", id="a text"
        ),
        pytest.param(
            DEPLOYMENTS,
            in_template(containers=[{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/a"}]}]),
            STRATEGIC,
            422,
            r'containers\[0\].volumeMounts\[0\].name: Not found: "v"',
            id="a mount of no volume",
        ),
        pytest.param(
            DEPLOYMENTS,
            in_template(
                containers=[{"name": "c", "volumeMounts": [{"mountPath": "/a"}, {"mountPath": "/a"}]}]
            ),
            MERGE,
            422,
            'Required value.*Not found: "".*must be unique',
            id="mounts without a name at one path",
        ),
    ],
)
def test_refusals(kind: ApiKind, patch: Any, media: str, code: int, message: str) -> None:
    obj = config() if kind is CONFIG_MAPS else deployment()
    with pytest.raises(StatusError, match=message) as refused:
        stored(kind, obj, patch, media)
    assert refused.value.code == code


@pytest.mark.smoke
def test_a_null_in_a_map_of_texts_is_the_empty_text() -> None:
    patch = [{"op": "copy", "from": "/data/none", "path": "/data/b"}]
    assert stored(CONFIG_MAPS, config(), patch, JSON)["data"] == {"a": "1", "b": ""}


@pytest.mark.smoke
def test_templates_get_defaults_of_volumes_and_ports_and_no_requests() -> None:
    container = {
        "name": "c",
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "2"}, "requests": {}},
    }
    volumes = [{"name": "m", "configMap": {"name": "c"}}, {"name": "h", "hostPath": {"path": "/x"}}]
    patch = in_template(containers=[container], volumes=volumes)
    spec = stored(DEPLOYMENTS, deployment(), patch, STRATEGIC)["spec"]["template"]["spec"]
    assert spec["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert spec["containers"][0]["resources"] == {"limits": {"cpu": "2"}}
    assert spec["volumes"] == [
        {"name": "m", "configMap": {"name": "c", "defaultMode": 420}},
        {"name": "h", "hostPath": {"path": "/x", "type": ""}},
    ]
