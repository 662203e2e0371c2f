"""The sandbox without HTTP: registry, admission, controllers and kubelet on the test's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from sandbox.admission.chain import Chain
from sandbox.controllers import start_controllers
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import NAMESPACES, NODES, PODS, builtin_table
from sandbox.nodes.initial_nodes import NodeShape, numbered_nodes
from sandbox.nodes.kubelet import Kubelet
from sandbox.store.object_store import ObjectStore
from sandbox.store.registry import Registry

T = TypeVar("T")
Obj = dict[str, Any]


class World:
    """One small cluster with the namespace `ns`. Pods are bound by the test (`bind`) or given a node."""

    def __init__(self) -> None:
        self.registry = Registry(ObjectStore(), builtin_table())
        self.chain = Chain(self.registry)
        self.registry.admission = self.chain

    async def create(self, kind: ApiKind, name: str, **body: Any) -> Obj:
        """Create an object in `ns` (or cluster-wide). `meta` is merged into its metadata."""
        meta = {"name": name, **body.pop("meta", {})}
        obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **body}
        return await self.registry.create(kind, obj, namespace="ns" if kind.namespaced else "")

    async def pod(self, name: str, cpu: str = "1", node: str = "", **spec: Any) -> Obj:
        """Create a pod with one container; `meta` and further spec fields as keywords."""
        meta = spec.pop("meta", {})
        placed = {"nodeName": node} if node else {}
        return await self.create(PODS, name, meta=meta, spec={**pod_spec(cpu), **placed, **spec})

    def get(self, kind: ApiKind, name: str) -> Obj:
        """The stored object; AssertionError if there is none."""
        found = self.registry.store.get(kind, "ns" if kind.namespaced else "", name)
        assert found is not None, f"no {kind.kind} {name}"
        return found

    def list(self, kind: ApiKind) -> list[Obj]:
        """All of `ns`, in name order."""
        return self.registry.store.list(kind, "ns" if kind.namespaced else None)

    def exists(self, kind: ApiKind, name: str) -> bool:
        """Whether the object is stored."""
        return self.registry.store.get(kind, "ns" if kind.namespaced else "", name) is not None

    async def change(self, kind: ApiKind, name: str, sub: str = "", **parts: Obj) -> Obj:
        """Merge fields into parts of an object: `change(JOBS, "j", spec={"suspend": True})`."""
        return await self.registry.modify(
            kind,
            "ns" if kind.namespaced else "",
            name,
            lambda seen: {**seen, **{part: {**seen.get(part, {}), **new} for part, new in parts.items()}},
            subresource=sub,
        )

    async def bind(self, name: str, node: str) -> Obj:
        """Place a pod, as the binding subresource does."""
        return await self.registry.modify(
            PODS,
            "ns",
            name,
            lambda seen: {**seen, "spec": {**seen["spec"], "nodeName": node}},
            subresource="binding",
        )

    async def delete(self, kind: ApiKind, name: str, **options: Any) -> None:
        """Delete with these DeleteOptions."""
        await self.registry.delete(kind, "ns" if kind.namespaced else "", name, options=options)

    async def phase(self, name: str, phase: str) -> None:
        """Set a pod's phase, ready if it runs, as a node's agent would."""
        ready = [{"type": "Ready", "status": str(phase == "Running")}]
        await self.change(PODS, name, "status", status={"phase": phase, "conditions": ready})


def pod_spec(cpu: str = "1") -> Obj:
    """A pod spec with one container that asks for this much cpu."""
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}


def template(cpu: str = "1", **annotations: str) -> Obj:
    """A pod template labelled `app: a`."""
    return {"metadata": {"labels": {"app": "a"}, "annotations": annotations}, "spec": pod_spec(cpu)}


async def until(probe: Callable[[], T], timeout: float = 60.0) -> T:
    """The first truthy value of `probe`; its last AssertionError, or one of our own, after the deadline."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while True:
        failure: AssertionError | None = None
        value: T | None = None
        try:
            value = probe()
        except AssertionError as error:
            failure = error
        if value:
            return value
        if loop.time() >= deadline:
            raise failure or AssertionError(f"not true within {timeout} s: last value {value!r}")
        await asyncio.sleep(0.002)


@asynccontextmanager
async def world(*, nodes: int = 0, controllers: bool = True, kubelet: bool = True) -> AsyncIterator[World]:
    """A running cluster of so many nodes with 8 cpu each."""
    made = World()
    await made.create(NAMESPACES, "ns")
    for node in numbered_nodes(nodes, NodeShape()):
        await made.registry.create(NODES, node)
    running = start_controllers(made.registry) if controllers else None
    agent = Kubelet(made.registry) if kubelet else None
    if agent:
        agent.start()
    try:
        yield made
    finally:
        if agent:
            await agent.stop()
        if running:
            await running.stop()
        await made.chain.close()
