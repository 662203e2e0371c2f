"""Objects as JSON, YAML or names: what the server sent, in kubectl's form, without colour."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from scheduler_core.decoding import decode
from scheduler_core.model.kinds import Resource

# Go's encoder escapes these in every string; so the text is the same byte for byte.
_ESCAPED: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
# Go's writes these as they are: the upper controls, which drive terminals, and changes of direction.
_UNSAFE: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def decoded(
    items: Sequence[msgspec.Raw | bytes], resource: Resource, *, managed_fields: bool = False
) -> list[dict[str, Any]]:
    """The objects as dicts, with kind and apiVersion, which items of a list may lack.

    managedFields are left out unless asked for, as kubectl does.
    """
    out = []
    for raw in items:
        item: dict[str, Any] = decode(raw, dict)
        item.setdefault("apiVersion", resource.api_version)
        item.setdefault("kind", resource.kind)
        if not managed_fields and isinstance(item.get("metadata"), dict):
            item["metadata"].pop("managedFields", None)
        out.append(item)
    return out


def listed(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """kubectl's own list of several objects."""
    return {"apiVersion": "v1", "items": list(items), "kind": "List", "metadata": {"resourceVersion": ""}}


def to_json(document: Any) -> str:
    """JSON with sorted keys and four spaces of indent, ending in a newline."""
    text = json.dumps(document, indent=4, sort_keys=True, ensure_ascii=False)
    for character, escape in _ESCAPED.items():
        text = text.replace(character, escape)
    return _harmless(text) + "\n"


def _harmless(text: str) -> str:
    """What may stand in a quoted string of JSON or YAML instead of itself, as an escape."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def to_yaml(document: Any) -> str:
    """YAML with sorted keys; a string that would read as something else is quoted."""
    import yaml

    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):  # type: ignore[misc]
        """Strings in the style that kubectl's encoder gives them."""

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


def name_line(item: dict[str, Any], resource: Resource) -> str:
    """`elasticquota.scheduling.x-k8s.io/name`."""
    kind = resource.kind.lower()
    return (
        f"{kind}.{resource.group}/{item['metadata']['name']}"
        if resource.group
        else f"{kind}/{item['metadata']['name']}"
    )
