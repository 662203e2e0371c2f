"""Detection of duplicate keys in request bodies, which JSON and YAML decoders accept silently."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from sandbox.yaml_loading import LOADER


class Duplicates(msgspec.Struct, frozen=True):
    """Duplicate keys of a body: one text for each, and a summary in the words of a strict decoder.

    `order` has the paths of all fields of a JSON body in text order, each with True for a repeated key.
    """

    texts: tuple[str, ...] = ()
    summary: str = ""
    order: tuple[tuple[str, bool], ...] = ()

    def outside(self, unknown: list[str]) -> Duplicates:
        """The duplicates outside of unknown fields (`unknown` are their paths)."""
        starts = tuple(f'duplicate field "{path}{end}' for path in unknown for end in '".[')
        texts = [text for text in self.texts if not text.startswith(starts)]
        if len(texts) == len(self.texts):
            return self
        return Duplicates(tuple(texts), ", ".join(texts), self.order)

    def among(self, unknown: list[str]) -> list[str]:
        """The texts of unknown and duplicate fields in the order of the body."""
        left, duplicates = set(unknown), set(self.texts)
        found: list[str] = []
        for path, again in self.order:
            text = f'duplicate field "{path}"'
            if path in left:
                left.remove(path)
                found.append(f'unknown field "{path}"')
            elif again and text in duplicates:
                duplicates.remove(text)
                found.append(text)
        return [*found, *(f'unknown field "{path}"' for path in unknown if path in left)]


NONE = Duplicates()


class _Pairs:
    """Keys and values of a JSON object, duplicates included."""

    __slots__ = ("items",)

    def __init__(self, items: list[tuple[str, Any]]) -> None:
        self.items = items


class _Found(Exception):
    """Raised at the first duplicate key."""


def _look(items: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in items}) < len(items):
        raise _Found


def in_json(body: bytes, prefix: str = "") -> Duplicates:
    """The duplicates of a JSON body in text order; `prefix` starts each text.

    An invalid body has no duplicates; its decoder reports the error.
    """
    try:
        json.loads(body, object_pairs_hook=_look)
    except _Found:
        value = json.loads(body, object_pairs_hook=_Pairs)
        order = tuple(_paths(value, ""))
        texts = tuple(dict.fromkeys(f'{prefix}duplicate field "{path}"' for path, again in order if again))
        return Duplicates(texts, ", ".join(texts), () if prefix else order)
    except (ValueError, RecursionError):
        pass
    return NONE


def _paths(value: Any, path: str) -> Iterator[tuple[str, bool]]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value.items:
            here = f"{path}.{key}" if path else key
            yield here, key in seen
            seen.add(key)
            yield from _paths(item, here)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, f"{path}[{index}]")


def in_yaml(body: bytes) -> Duplicates:
    """The duplicates of a YAML body with the line numbers (from 1) of the repeated keys."""
    try:
        texts = tuple(_lines(yaml.compose(body, Loader=LOADER)))
    except (yaml.YAMLError, RecursionError, ValueError):
        return NONE
    if not texts:
        return NONE
    return Duplicates(texts, "yaml: unmarshal errors:\n  " + "\n  ".join(texts))


def _lines(node: Any) -> Iterator[str]:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                yield f'line {key.start_mark.line + 1}: key "{name}" already set in map'
            seen.add(name)
            yield from _lines(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _lines(item)
