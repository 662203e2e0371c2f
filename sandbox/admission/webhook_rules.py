"""Matching of requests to webhooks: parsed webhook configurations, rules, selectors and match conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.cel.evaluation import CelError, Expression, compile_expression
from sandbox.kinds.api_kinds import ApiKind
from sandbox.objects import Obj
from scheduler_core.decoding import convert
from scheduler_core.model.selectors import EVERYTHING, LabelSelectorWire, Selector, parse_selector

CONDITION_VARIABLES = frozenset(("object", "oldObject", "request"))
DEFAULT_TIMEOUT = 10


@dataclass(frozen=True)
class Rule:
    """One entry of `rules`."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[str, ...]
    scope: str

    def matches(self, operation: str, kind: ApiKind, subresource: str) -> bool:
        """True if the rule matches the operation on the kind in exactly this version."""
        return (
            bool(self.operations & {"*", operation})
            and bool(self.groups & {"*", kind.group})
            and bool(self.versions & {"*", kind.version})
            and self.scope in ("*", "Namespaced" if kind.namespaced else "Cluster")
            and any(_resource_matches(text, kind.plural, subresource) for text in self.resources)
        )


@dataclass(frozen=True)
class Condition:
    """One of `matchConditions`."""

    name: str
    expression: Expression


@dataclass(frozen=True, eq=False)
class Webhook:
    """One parsed webhook of a configuration. Compared by identity."""

    name: str
    configuration: str
    client: Mapping[str, Any]
    rules: tuple[Rule, ...]
    namespaces: Selector
    objects: Selector
    conditions: tuple[Condition, ...]
    fail_closed: bool
    equivalent: bool
    reinvoke: bool
    side_effects: str
    timeout: int

    @property
    def dry_run_safe(self) -> bool:
        """True if a dry run may call the webhook."""
        return self.side_effects in ("None", "NoneOnDryRun")

    def matched_kind(
        self, operation: str, kind: ApiKind, subresource: str, served: Iterable[ApiKind]
    ) -> ApiKind | None:
        """The version in which the webhook gets the object; None if no rule matches.

        With matchPolicy Equivalent, a rule for any served version of the same stored kind matches.
        """
        candidates = [kind]
        if self.equivalent:
            candidates += [
                other
                for other in served
                if other is not kind and other.storage == kind.storage and other.kind == kind.kind
            ]
        for candidate in candidates:
            if any(rule.matches(operation, candidate, subresource) for rule in self.rules):
                return candidate
        return None

    def selects(self, namespace_labels: Mapping[str, str] | None, objects: Iterable[Obj | None]) -> bool:
        """True if both selectors match. `namespace_labels` is None for cluster-scoped kinds but Namespace."""
        if namespace_labels is not None and not self.namespaces.matches(namespace_labels):
            return False
        if self.objects == EVERYTHING:
            return True
        return any(self.objects.matches(_labels(obj)) for obj in objects if obj is not None)


def _resource_matches(text: str, plural: str, subresource: str) -> bool:
    wanted, _, wanted_sub = text.partition("/")
    return wanted in ("*", plural) and wanted_sub in ((subresource, "*") if subresource else ("", "*"))


def _labels(obj: Obj) -> dict[str, str]:
    return obj.get("metadata", {}).get("labels") or {}


def read_webhooks(configuration: Obj) -> list[Webhook]:
    """The webhooks of a Validating- or MutatingWebhookConfiguration.

    Raises CelError for a match condition that cannot be run, ModelError for a malformed selector.
    """
    name = configuration["metadata"]["name"]
    return [_read_webhook(name, entry) for entry in configuration.get("webhooks") or ()]


def _read_webhook(configuration: str, entry: Obj) -> Webhook:
    return Webhook(
        name=entry.get("name", ""),
        configuration=configuration,
        client=entry.get("clientConfig") or {},
        rules=tuple(_read_rule(rule) for rule in entry.get("rules") or ()),
        namespaces=read_selector(entry.get("namespaceSelector"), "namespaceSelector"),
        objects=read_selector(entry.get("objectSelector"), "objectSelector"),
        conditions=tuple(_read_condition(item) for item in entry.get("matchConditions") or ()),
        fail_closed=entry.get("failurePolicy", "Fail") == "Fail",
        equivalent=entry.get("matchPolicy", "Equivalent") == "Equivalent",
        reinvoke=entry.get("reinvocationPolicy") == "IfNeeded",
        side_effects=entry.get("sideEffects", "Unknown"),
        timeout=entry.get("timeoutSeconds") or DEFAULT_TIMEOUT,
    )


def _read_rule(rule: Obj) -> Rule:
    return Rule(
        operations=frozenset(rule.get("operations") or ()),
        groups=frozenset(rule.get("apiGroups") or ()),
        versions=frozenset(rule.get("apiVersions") or ()),
        resources=tuple(rule.get("resources") or ()),
        scope=rule.get("scope") or "*",
    )


def _read_condition(item: Obj) -> Condition:
    text = item.get("expression", "")
    try:
        return Condition(item.get("name", ""), compile_expression(text, CONDITION_VARIABLES))
    except CelError as error:
        raise CelError(f"match condition {item.get('name', '')!r}: {text!r}: {error}") from None


def read_selector(raw: Obj | None, path: str) -> Selector:
    """A label selector; a missing selector selects everything."""
    return parse_selector(convert(raw, LabelSelectorWire), path) if raw else EVERYTHING


def conditions_hold(webhook: Webhook, variables: Mapping[str, Any]) -> bool:
    """True if all match conditions are true. A false condition takes precedence over errors of others.

    Raises CelError with the expressions if none is false and one cannot be evaluated.
    """
    problems = []
    for condition in webhook.conditions:
        try:
            if not condition.expression.holds(variables):
                return False
        except CelError as error:
            problems.append(f"expression '{condition.expression.text}' resulted in error: {error}")
    if problems:
        raise CelError(", ".join(problems))
    return True
