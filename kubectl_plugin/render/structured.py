"""The output forms json, yaml and name, in kubectl's layout."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from scheduler_core.decoding import decode
from scheduler_core.model.kinds import Resource

# Go's JSON encoder escapes these characters in every string.
_ESCAPED: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
# Go's encoder does not escape these: C1 control characters and direction marks, which control terminals.
_UNSAFE: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def decoded(raw: msgspec.Raw | bytes, resource: Resource, *, managed_fields: bool = False) -> dict[str, Any]:
    """The object as a dict, with the kind and apiVersion that items of a list lack.

    managedFields are removed unless `managed_fields`, as in kubectl.
    """
    item: dict[str, Any] = decode(raw, dict)
    item.setdefault("apiVersion", resource.api_version)
    item.setdefault("kind", resource.kind)
    if not managed_fields and isinstance(item.get("metadata"), dict):
        item["metadata"].pop("managedFields", None)
    return item


def listed(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A List of the objects, as kubectl prints it."""
    return {"apiVersion": "v1", "items": list(items), "kind": "List", "metadata": {"resourceVersion": ""}}


def to_json(document: Any) -> str:
    """JSON with sorted keys, an indent of four spaces and a final newline."""
    text = json.dumps(document, indent=4, sort_keys=True, ensure_ascii=False)
    for character, escape in _ESCAPED.items():
        text = text.replace(character, escape)
    return _harmless(text) + "\n"


def _harmless(text: str) -> str:
    """The text with unsafe characters as escapes, which JSON and YAML allow in quoted strings."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def to_yaml(document: Any) -> str:
    """YAML with sorted keys; a string that YAML would read as another type is quoted."""
    import yaml

    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):  # type: ignore[misc]
        """Writes strings in the style of kubectl's encoder."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def string(dumper: Any, value: str) -> Any:
        style = None
        if _UNSAFE.search(value):
            style = '"'
        elif "\n" in value:
            style = "|"
        elif dumper.resolve(yaml.ScalarNode, value, (True, False)) != "tag:yaml.org,2002:str":
            style = '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, string)
    text: str = yaml.dump(
        document, Dumper=Dumper, default_flow_style=False, allow_unicode=True, width=2**31 - 1
    )
    return _harmless(text)


def encoded(document: Any, form: str) -> str:
    """The document as `json` or `yaml`."""
    return to_json(document) if form == "json" else to_yaml(document)


def name_line(name: str, resource: Resource) -> str:
    """`elasticquota.scheduling.x-k8s.io/name`."""
    group = f".{resource.group}" if resource.group else ""
    return f"{resource.kind.lower()}{group}/{name}"
