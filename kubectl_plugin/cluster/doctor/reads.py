"""Reads of the doctor: each list once, and an error that says what the user may not list."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, TypeVar

import msgspec

from kubectl_plugin.cli.errors import CommandFailed
from kubectl_plugin.cluster.pods import pod_parser
from kubectl_plugin.cluster.reading import ListScope, kind_name, list_raw
from scheduler_core.errors import ModelError, MusterError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import Forbidden, NotFound
from scheduler_core.model.kinds import NAMESPACES, PODS, Resource
from scheduler_core.model.meta import identity_of
from scheduler_core.model.names import EXEMPT_LABEL, EXEMPT_NAMESPACES
from scheduler_core.model.pods.pod import Pod

T = TypeVar("T")

EVERYWHERE: Final = ""


class NotChecked(MusterError):
    """A check that cannot be made, and why."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)

    def __str__(self) -> str:
        return self.problem


class NotServed(NotChecked):
    """A check whose kind the server does not serve."""


class Reads:
    """The objects of one moment. Objects that cannot be read are collected in `unreadable`.

    `namespace` is that of the command, empty for all.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.unreadable: dict[str, None] = {}
        self._lists: dict[tuple[Resource, ListScope], list[msgspec.Raw]] = {}
        self._parsed: dict[tuple[Callable[[Any], Any], int], list[Any]] = {}

    def fresh(self) -> Reads:
        """The same reads, made anew."""
        return Reads(self.client, self.namespace)

    def raw(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> list[msgspec.Raw]:
        """The objects of a namespace (by default the command's). Raises NotChecked, the ApiError tree."""
        scope = ListScope(self.namespace if namespace is None else namespace, labels, fields)
        if (resource, scope) not in self._lists:
            where = f" in namespace {scope.namespace}" if scope.namespace else " of all namespaces"
            try:
                self._lists[resource, scope] = list_raw(self.client, resource, scope)
            except Forbidden:
                said = where if resource.namespaced else ""
                raise NotChecked(f"you may not list {kind_name(resource)}{said}") from None
            except CommandFailed as error:
                raise NotServed(str(error)) from None
        return self._lists[resource, scope]

    def parsed(
        self,
        resource: Resource,
        parse: Callable[[Any], T],
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
    ) -> list[T]:
        """The parsed objects; those that cannot be read are noted. Raises as `raw`."""
        listed = self.raw(resource, namespace, labels=labels, fields=fields)
        # The lists are kept, so that their identities stay theirs.
        key = (parse, id(listed))
        if key not in self._parsed:
            found = self._parsed[key] = []
            for raw in listed:
                try:
                    found.append(parse(raw))
                except ModelError as error:
                    self.unreadable[str(error)] = None
        return self._parsed[key]

    @cached_property
    def _parse_pod(self) -> Callable[[Any], Pod]:
        return pod_parser(self.client)

    def pods(self, *, fields: str = "") -> list[Pod]:
        """The parsed pods. Raises as `raw`."""
        return self.parsed(PODS, self._parse_pod, fields=fields)

    def exempt_namespaces(self) -> set[str]:
        """The namespaces in which Muster does nothing; those with the label only if they may be listed."""
        try:
            labelled = self.raw(NAMESPACES, EVERYWHERE, labels=f"{EXEMPT_LABEL}=true")
        except NotChecked:
            labelled = []
        return {*EXEMPT_NAMESPACES, *(identity_of(raw).name for raw in labelled)}

    def one(self, resource: Resource, namespace: str, name: str) -> dict[str, Any] | None:
        """One object; None if it does not exist. Raises NotChecked and the ApiError tree."""
        try:
            return self.client.get_json(resource, namespace, name)
        except NotFound:
            return None
        except Forbidden:
            place = f"{namespace}/{name}" if namespace else name
            raise NotChecked(f"you may not get {kind_name(resource)} {place}") from None

    def served(self, resource: Resource) -> list[msgspec.Raw]:
        """The objects of a kind that a server may not serve: none then. Raises as `raw`."""
        try:
            return self.raw(resource)
        except NotServed:
            return []
