"""Write the chart's policies for Muster's own accounts from `scheduler_core.model.account_writes`.

    python -m tests.tools.chart_account_policies

RBAC cannot limit a right to fields of an object, nor to objects with a label. What only an installation knows
is filled in by the chart: the account's name, `variables.home` (the release's namespace), `variables.exempt`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from scheduler_core.model.account_writes import (
    ADOPTED_POD_CHANGES,
    CA_BUNDLE,
    CLAIM_CHANGES,
    CONFIGURATION_CHANGES,
    GROUP_CHANGES,
    GROUP_CONFIG_MAP_CHANGES,
    MADE_GROUP_CHANGES,
    POD_CHANGES,
    POD_STATUS_CHANGES,
    VOLUME_CHANGES,
    OwnChanges,
)
from scheduler_core.model.account_writes import (
    Path as FieldPath,
)
from scheduler_core.model.kinds import POD_DISRUPTION_BUDGETS, PODS, Resource
from scheduler_core.model.names import (
    DEFAULT_SCHEDULER,
    EXEMPT_LABEL,
    GANG_AUTO,
    GANG_BUDGET_PREFIX,
    GANG_LABEL,
    GANG_SOURCE_ANNOTATION,
    HISTORY_PREFIX,
    LABEL_REGION,
    LABEL_ZONE,
    PROTECTED_GROUP_LABEL,
    SAKKARA_GROUP_LABEL,
    SELECTED_NODE_ANNOTATION,
)

FILE = Path(__file__).parents[2] / "charts" / "muster" / "files" / "account-policies.yaml"
HEADER = """\
# Written by tests/tools/chart_account_policies.py from scheduler_core/model/account_writes.py; do not edit.
"""
SCHEDULER: Final = "muster-scheduler"
WEBHOOK: Final = "muster-webhook"
# What the API server itself writes with every change.
_KEPT_BY_SERVER: Final = ("generation", "managedFields", "resourceVersion")
_NOT_EXEMPT: Final = "!(request.namespace in variables.exempt)"

Obj = dict[str, Any]


class _Long(str):
    """A text that is folded at its spaces."""


yaml.SafeDumper.add_representer(
    _Long, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style=">")
)


def text() -> str:
    """The file as it should be."""
    policies = [
        _pods(),
        _pod_status(),
        _bindings(),
        _volumes(),
        _claims(),
        _groups(),
        _config_maps(),
        _budgets(),
        _made_groups(),
        _configurations(),
        _adoption(),
    ]
    return HEADER + yaml.safe_dump({"policies": policies}, sort_keys=False, width=110)


def stays(changes: OwnChanges) -> str:
    """CEL: all fields but those that the account changes are as they were, also fields yet to come."""
    return " && ".join(_same(at, keys) for at, keys in _free(changes).items())


def maps(changes: OwnChanges) -> list[tuple[str, str]]:
    """The CEL variables that `stays` compares, by name."""
    return [
        (_variable(of, at), _map(of, at)) for at in _free(changes) if at for of in ("object", "oldObject")
    ]


def _free(changes: OwnChanges) -> dict[FieldPath, list[str]]:
    """By the path of a map, the keys that may differ there."""
    found: dict[FieldPath, set[str]] = defaultdict(set)
    found[()].add("metadata")
    found["metadata",].update(_KEPT_BY_SERVER)
    for path in changes.paths:
        for depth, step in enumerate(path):
            found[path[:depth]].add(step)
    return {at: sorted(found[at]) for at in sorted(found)}


def _same(at: FieldPath, keys: Sequence[str]) -> str:
    """CEL: two maps differ in nothing but some keys."""
    new, old = ((f"variables.{_variable(of, at)}" if at else f"dyn({of})") for of in ("object", "oldObject"))
    return _alike(new, old, keys)


def _alike(new: str, old: str, keys: Sequence[str]) -> str:
    free = _texts(keys)
    return (
        f"{new}.all(k, k in {free} || k in {old} && {new}[k] == {old}[k])"
        f" && {old}.all(k, k in {free} || k in {new})"
    )


def _variable(of: str, at: FieldPath) -> str:
    """`labels`, `labelsBefore`."""
    return f"{at[-1]}{'' if of == 'object' else 'Before'}"


def _map(of: str, at: FieldPath) -> str:
    """CEL: the map at a path, empty where there is none."""
    path = ".".join((of, *at))
    return f"dyn({path})" if at == ("metadata",) else f"has({path}) ? dyn({path}) : {{}}"


def _texts(items: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{item}'" for item in items) + "]"


def _conditions(changes: OwnChanges) -> str:
    """CEL: conditions of all other types are as they were."""
    kept = f".filter(c, !(c.type in {_texts(changes.conditions)}))"
    each = [
        f"(has({of}.status) && has({of}.status.conditions) ? {of}.status.conditions : []){kept}"
        for of in ("object", "oldObject")
    ]
    return " == ".join(each)


def _labelled(of: str, key: str, kind: str = "labels") -> str:
    return f"has({of}.metadata.{kind}) && '{key}' in {of}.metadata.{kind}"


def _field(path: FieldPath) -> str:
    """A path as messages write it: `metadata.labels[a/b]`, `spec.claimRef`."""
    named = path[:2] in (("metadata", "labels"), ("metadata", "annotations"))
    return f"{'.'.join(path[:2])}[{path[2]}]" if named and len(path) > 2 else ".".join(path)


def _only(who: str, changes: OwnChanges) -> str:
    return f"{who} changes only {', '.join(map(_field, changes.paths))}"


def _policy(
    name: str,
    account: str,
    resources: Sequence[Resource],
    operations: Sequence[str],
    validations: Sequence[tuple[str, str]],
    *,
    changes: OwnChanges | None = None,
    variables: Sequence[tuple[str, str]] = (),
    subresource: str = "",
) -> Obj:
    """A policy. `validations`: CEL, and what is said after `Kind namespace/name: ` where it does not hold."""
    first = resources[0]
    plurals = dict.fromkeys("/".join(filter(None, (item.plural, subresource))) for item in resources)
    groups = dict.fromkeys(item.group for item in resources)
    rule = {
        "apiGroups": list(groups),
        "apiVersions": ["*"] if len(groups) > 1 else [first.version],
        "operations": list(operations),
        "resources": list(plurals),
        "scope": "Namespaced" if first.namespaced else "Cluster",
    }
    place = "request.namespace + '/' + " if first.namespaced else ""
    kind = f"'{first.kind} '" if len(plurals) == 1 else "request.kind.kind + ' '"
    subject = f"{kind} + {place}variables.written"
    written = "object != null && has(object.metadata.name) ? object.metadata.name : request.name"
    return {
        "name": name,
        "account": account,
        "resourceRules": [rule],
        "variables": [
            {"name": key, "expression": _Long(value)}
            for key, value in (("written", written), *variables, *(maps(changes) if changes else ()))
        ],
        "validations": [
            {
                "expression": _Long(expression),
                "messageExpression": _Long(f"{subject} + ': {said}'"),
                "reason": "Forbidden",
            }
            for expression, said in validations
        ],
    }


def _update(name: str, changes: OwnChanges, rules: Sequence[tuple[str, str]]) -> Obj:
    """The policy for what the scheduler changes."""
    return _policy(
        name,
        SCHEDULER,
        changes.resources,
        ["UPDATE"],
        rules,
        changes=changes,
        subresource=changes.subresource,
    )


def _pods() -> Obj:
    exempt = "the scheduler changes no pod in exempt namespaces"
    rules = [(_NOT_EXEMPT, exempt), (stays(POD_CHANGES), _only("the scheduler", POD_CHANGES))]
    return _update("muster-scheduler-pods", POD_CHANGES, rules)


def _pod_status() -> Obj:
    changes = POD_STATUS_CHANGES
    types = f"of status.conditions the scheduler changes only {', '.join(changes.conditions)}"
    rules = [(stays(changes), _only("the scheduler", changes)), (_conditions(changes), types)]
    return _update("muster-scheduler-pod-status", changes, rules)


def _bindings() -> Obj:
    """The API server copies annotations and labels of a Binding to the pod; the zone is its own doing."""
    zones = _texts((LABEL_REGION, LABEL_ZONE))
    rule = (
        "(!has(object.metadata.annotations) || object.metadata.annotations.size() == 0) && "
        f"(!has(object.metadata.labels) || object.metadata.labels.all(k, k in {zones}))"
    )
    said = "the scheduler binds pods without labels and annotations"
    return _policy(
        "muster-scheduler-bindings", SCHEDULER, (PODS,), ["CREATE"], [(rule, said)], subresource="binding"
    )


def _volumes() -> Obj:
    claim, old = "object.spec.claimRef", "oldObject.spec.claimRef"
    free = f"!has({old})"
    same = f"has({claim}) && {claim} == {old}"
    reserved = (
        f"has({claim}) && {claim}.namespace == {old}.namespace && {claim}.name == {old}.name"
        f" && (!has({old}.uid) || {old}.uid == '')"
    )
    mine = "the scheduler reserves only volumes that are free, or reserved for the same claim by its name"
    rules = [
        (stays(VOLUME_CHANGES), _only("the scheduler", VOLUME_CHANGES)),
        (f"{free} || {same} || {reserved}", mine),
    ]
    return _update("muster-scheduler-volumes", VOLUME_CHANGES, rules)


def _claims() -> Obj:
    before = _labelled("oldObject", SELECTED_NODE_ANNOTATION, "annotations")
    value = f"oldObject.metadata.annotations['{SELECTED_NODE_ANNOTATION}']"
    stored = "has(oldObject.spec.volumeName) && oldObject.spec.volumeName != ''"
    same = f"{_labelled('object', SELECTED_NODE_ANNOTATION, 'annotations')} && object.metadata.annotations["
    same += f"'{SELECTED_NODE_ANNOTATION}'] == {value}"
    rules = [
        (stays(CLAIM_CHANGES), _only("the scheduler", CLAIM_CHANGES)),
        (
            f"{before} && {value} != '' ? {same} : !({stored})",
            "the scheduler selects a node once, for claims without a volume",
        ),
    ]
    return _update("muster-scheduler-claims", CLAIM_CHANGES, rules)


def _groups() -> Obj:
    rules = [(stays(GROUP_CHANGES), _only("the scheduler", GROUP_CHANGES))]
    return _update("muster-scheduler-groups", GROUP_CHANGES, rules)


def _config_maps() -> Obj:
    changes = GROUP_CONFIG_MAP_CHANGES
    history = f"request.namespace == variables.home && variables.written.startsWith('{HISTORY_PREFIX}')"
    # The label of the object as it was, so that the scheduler cannot make a group of another ConfigMap.
    group = f"request.operation == 'UPDATE' && {_labelled('oldObject', SAKKARA_GROUP_LABEL)}"
    said = (
        f"the scheduler may write only {HISTORY_PREFIX}* in namespace ' + variables.home + ',"
        f" and ConfigMaps with the label {SAKKARA_GROUP_LABEL}"
    )
    rules = [
        ("variables.history || variables.group", said),
        (f"variables.history || !variables.group || {stays(changes)}", _only("the scheduler", changes)),
    ]
    return _policy(
        "muster-scheduler-configmaps",
        SCHEDULER,
        changes.resources,
        ["CREATE", "UPDATE", "DELETE"],
        rules,
        changes=changes,
        variables=[("history", history), ("group", group)],
    )


def _budgets() -> Obj:
    """Without it a budget could be lifted, and one for other pods would keep nodes from being drained."""
    label = PROTECTED_GROUP_LABEL

    def own(of: str) -> str:
        uid = f"{of}.metadata.labels['{label}']"
        selector = f"{of}.spec.selector"
        labels, more = f"{selector}.matchLabels", f"{selector}.matchExpressions"
        return (
            f"{_labelled(of, label)} && {of}.metadata.name == '{GANG_BUDGET_PREFIX}' + {uid}"
            f" && has({selector}) && has({labels}) && {labels} == {{'{label}': {uid}}}"
            f" && (!has({more}) || {more}.size() == 0)"
        )

    was = f"{_labelled('oldObject', label)} && oldObject.metadata.name.startsWith('{GANG_BUDGET_PREFIX}')"
    said = f"the scheduler writes only budgets {GANG_BUDGET_PREFIX}UID that select {label}=UID"
    rules = [
        (_NOT_EXEMPT, "the scheduler writes no budget in exempt namespaces"),
        (f"oldObject == null || {was}", said),
        (f"object == null || {own('object')}", said),
    ]
    operations = ["CREATE", "UPDATE", "DELETE"]
    return _policy("muster-scheduler-budgets", SCHEDULER, (POD_DISRUPTION_BUDGETS,), operations, rules)


def _made_groups() -> Obj:
    labels = "namespaceObject.metadata.labels"
    asked = (
        f"has({labels}) && '{GANG_LABEL}' in {labels} && {labels}['{GANG_LABEL}'] == '{GANG_AUTO}'"
        f" && !('{EXEMPT_LABEL}' in {labels} && {labels}['{EXEMPT_LABEL}'] == 'true') && {_NOT_EXEMPT}"
    )

    def made(of: str) -> str:
        return f"{_labelled(of, GANG_LABEL)} && {of}.metadata.labels['{GANG_LABEL}'] == '{GANG_AUTO}'"

    mark = f"metadata.labels[{GANG_LABEL}]={GANG_AUTO}"
    new = (
        f"{made('object')} && object.metadata.labels.size() == 1 && has(object.metadata.annotations)"
        f" && object.metadata.annotations.all(k, k == '{GANG_SOURCE_ANNOTATION}')"
        " && dyn(object.spec).all(k, k in ['minMembers', 'minMembersFrom'])"
    )
    rules = [
        (asked, f"the webhook writes PodGroups only in namespaces with {GANG_LABEL}={GANG_AUTO}"),
        (
            f"oldObject == null || {made('oldObject')}",
            f"the webhook touches only PodGroups that it made: {mark}",
        ),
        (
            f"request.operation != 'CREATE' || {new}",
            f"the webhook makes PodGroups with {mark}, minMembers and minMembersFrom",
        ),
        (
            f"request.operation != 'UPDATE' || {stays(MADE_GROUP_CHANGES)}",
            _only("the webhook", MADE_GROUP_CHANGES),
        ),
    ]
    operations = ["CREATE", "UPDATE", "DELETE"]
    changes = MADE_GROUP_CHANGES
    return _policy("muster-webhook-groups", WEBHOOK, changes.resources, operations, rules, changes=changes)


def _configurations() -> Obj:
    """Whoever decides what is sent, and where, sees every object and may change it."""
    changes = CONFIGURATION_CHANGES
    at, ca = CA_BUNDLE
    same = f"{_alike('dyn(w)', 'dyn(o)', [at])} && {_alike(f'dyn(w.{at})', f'dyn(o.{at})', [ca])}"
    rules = [
        (
            f"{stays(changes)} && object.webhooks.size() == oldObject.webhooks.size()"
            f" && object.webhooks.all(w, oldObject.webhooks.exists(o, o.name == w.name && {same}))",
            f"the webhook changes only webhooks[].{at}.{ca}",
        )
    ]
    return _policy(
        "muster-webhook-configurations", WEBHOOK, changes.resources, ["UPDATE"], rules, changes=changes
    )


def _adoption() -> Obj:
    changes = ADOPTED_POD_CHANGES
    rules = [
        (
            f"oldObject.spec.schedulerName == '{DEFAULT_SCHEDULER}'"
            " && (object == null || object.spec == oldObject.spec)",
            "the webhook of Muster touches pods of the default scheduler only, and never what they run",
        ),
        (_NOT_EXEMPT, "the webhook of Muster leaves exempt namespaces alone"),
        (f"object == null || {stays(changes)}", _only("the webhook", changes)),
    ]
    operations = ["UPDATE", "DELETE"]
    made = _policy("muster-adoption", WEBHOOK, changes.resources, operations, rules, changes=changes)
    # Without the part, it would cost every change and deletion of a pod, of whomever, and limit nobody.
    return {**made, "part": "webhook-adoption"}


if __name__ == "__main__":
    FILE.write_text(text())
