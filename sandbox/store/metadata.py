"""Object metadata: validation of names and labels by kube-apiserver's rules, and server-owned fields."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Iterable
from typing import Any

from sandbox import errors
from sandbox.errors import StatusCause
from sandbox.kinds.api_kinds import ApiKind
from sandbox.objects import Obj, now, rfc3339

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = rf"({_QUALIFIED})?"
_RULES = {
    "subdomain": (
        re.compile(_SUBDOMAIN),
        253,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
        "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        f"'{_SUBDOMAIN}')",
    ),
    "label": (
        re.compile(_LABEL),
        63,
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
        "start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for "
        f"validation is '{_LABEL}')",
    ),
    "dns1035": (
        re.compile(_DNS1035),
        63,
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
        "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex "
        f"used for validation is '{_DNS1035}')",
    ),
}
_LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    f"for validation is '{_LABEL_VALUE}')"
)
_KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    f"'{_QUALIFIED}')"
)
_LABEL_VALUE_PATTERN = re.compile(_LABEL_VALUE)
_KEY_PATTERN = re.compile(rf"({_SUBDOMAIN}/)?(?=.{{1,63}}$){_QUALIFIED}")
GENERATED_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_BASE_LIMIT = 58
ANNOTATIONS_LIMIT = 256 * 1024


def _name_rule(kind: ApiKind) -> str:
    if kind.plural == "namespaces":
        return "label"
    if kind.plural == "services" and not kind.group:
        return "dns1035"
    return "path" if kind.group == "rbac.authorization.k8s.io" else "subdomain"


def name_causes(kind: ApiKind, name: str, field: str = "metadata.name") -> list[StatusCause]:
    """Validation errors of an object's name for its kind."""
    rule = _name_rule(kind)
    if rule == "path":
        bad = name in (".", "..") or "/" in name or "%" in name
        return [errors.invalid_value(field, name, "may not contain '/' or '%'")] if bad else []
    return _rule_causes(rule, field, name)


def label_name_causes(field: str, name: str) -> list[StatusCause]:
    """Validation errors of a field that must be a DNS label."""
    return _rule_causes("label", field, name)


def long_name_causes(field: str, name: str) -> list[StatusCause]:
    """Validation errors of a field that must be a DNS subdomain."""
    return _rule_causes("subdomain", field, name)


def label_key_causes(key: str, field: str) -> list[StatusCause]:
    """Validation errors of a field that must be the key of a label."""
    return [] if _KEY_PATTERN.fullmatch(key) else [errors.invalid_value(field, key, _KEY_RULE)]


def _rule_causes(rule: str, field: str, name: str) -> list[StatusCause]:
    pattern, limit, text = _RULES[rule]
    causes = []
    if len(name) > limit:
        causes.append(errors.invalid_value(field, name, f"must be no more than {limit} bytes"))
    if not pattern.fullmatch(name):
        causes.append(errors.invalid_value(field, name, text))
    return causes


def label_causes(labels: Any, field: str) -> list[StatusCause]:
    """Validation errors of a map of labels."""
    causes = []
    for key, value in (labels or {}).items():
        if not _KEY_PATTERN.fullmatch(key):
            causes.append(errors.invalid_value(field, key, _KEY_RULE))
        if len(value) > 63:
            causes.append(errors.invalid_value(field, value, "must be no more than 63 bytes"))
        elif not _LABEL_VALUE_PATTERN.fullmatch(value):
            causes.append(errors.invalid_value(field, value, _LABEL_VALUE_RULE))
    return causes


def metadata_causes(kind: ApiKind, obj: Obj) -> list[StatusCause]:
    """Validation errors of an object's metadata."""
    meta = obj["metadata"]
    causes = name_causes(kind, meta["name"])
    causes += label_causes(meta.get("labels"), "metadata.labels")
    annotations = meta.get("annotations") or {}
    for key in annotations:
        if not _KEY_PATTERN.fullmatch(key.lower()):
            causes.append(errors.invalid_value("metadata.annotations", key, _KEY_RULE))
    if sum(len(key) + len(value) for key, value in annotations.items()) > ANNOTATIONS_LIMIT:
        causes.append(
            StatusCause(
                "FieldValueTooLong",
                f"Too long: may not be more than {ANNOTATIONS_LIMIT} bytes",
                "metadata.annotations",
            )
        )
    return causes + _owner_causes(meta.get("ownerReferences") or ())


def _owner_causes(references: Iterable[Obj]) -> list[StatusCause]:
    causes = []
    controllers = 0
    for index, owner_ref in enumerate(references):
        field = f"metadata.ownerReferences[{index}]"
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner_ref.get(key):
                causes.append(errors.required(f"{field}.{key}"))
        controllers += bool(owner_ref.get("controller"))
    if controllers > 1:
        text = "Only one reference can have Controller set to true"
        causes.append(errors.invalid_value("metadata.ownerReferences", controllers, text))
    return causes


def check_types(obj: Obj) -> None:
    """Refuse metadata fields with a wrong JSON type. Raises BadRequest.

    Null values of labels and annotations become empty strings, as kube-apiserver decodes them.
    """
    meta = obj.get("metadata")
    if meta is None:
        obj["metadata"] = {}
        return
    if not isinstance(meta, dict):
        raise errors.bad_request("metadata: expected an object")
    for key in ("labels", "annotations"):
        table = meta.get(key)
        if table is None:
            meta.pop(key, None)
            continue
        if isinstance(table, dict) and None in table.values():
            meta[key] = table = {name: "" if value is None else value for name, value in table.items()}
        if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
            raise errors.bad_request(f"metadata.{key}: expected a map of strings to strings")
    for key in ("name", "generateName", "namespace", "uid", "resourceVersion"):
        if not isinstance(meta.get(key) or "", str):
            raise errors.bad_request(f"metadata.{key}: expected a string")
    for key, item_type in (("finalizers", str), ("ownerReferences", dict)):
        items = meta.get(key) or []
        if not isinstance(items, list) or not all(isinstance(item, item_type) for item in items):
            raise errors.bad_request(f"metadata.{key}: expected a list of {item_type.__name__}")


def generated_name(base: str) -> str:
    """`base` with five random characters, for generateName."""
    suffix = "".join(random.choices(GENERATED_CHARACTERS, k=5))
    return base[:_GENERATED_BASE_LIMIT] + suffix


def stamp_new(kind: ApiKind, obj: Obj) -> None:
    """Set the server-owned fields of a new object in place: uid, creationTimestamp, generation."""
    meta = obj["metadata"]
    for key in (
        "resourceVersion",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ):
        meta.pop(key, None)
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = rfc3339(now())
    if kind.generation:
        meta["generation"] = 1


_OWNED = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "namespace",
)


def carry_over(new: Obj, old: Obj) -> None:
    """Restore, in place, the metadata of `new` that clients cannot change."""
    meta, old_meta = new["metadata"], old["metadata"]
    for key in _OWNED:
        if key in old_meta:
            meta[key] = old_meta[key]
        else:
            meta.pop(key, None)
    meta["resourceVersion"] = old_meta["resourceVersion"]
    meta.pop("selfLink", None)
