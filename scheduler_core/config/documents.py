"""Parses YAML or JSON text to plain values; refuses duplicate keys.

Scalars resolve as the Kubernetes tools resolve them, not as YAML 1.1 does: no base-60 numbers, no
timestamps; `yes`, `no`, `on` and `off` are booleans.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
import yaml

from scheduler_core.config.problems import ConfigErrors, child, index
from scheduler_core.errors import ConfigError

MAX_NODES: Final = 100_000  # after aliases are followed; a scheduler configuration has a few hundred
MAX_DEPTH: Final = 60


def _forms(word: str) -> tuple[str, str, str]:
    return word, word.title(), word.upper()


_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset(form for word in ("true", "yes", "on") for form in _forms(word))
_FALSE: Final = frozenset(form for word in ("false", "no", "off") for form in _forms(word))
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INTEGERS: Final[tuple[tuple[re.Pattern[str], int], ...]] = (
    (re.compile(r"([-+]?)0b([01]+)"), 2),
    (re.compile(r"([-+]?)0x([0-9a-fA-F]+)"), 16),
    (re.compile(r"([-+]?)0o?([0-7]+)"), 8),
    (re.compile(r"([-+]?)(0|[1-9][0-9]*)"), 10),
)
_MAX_DIGITS: Final = 40


def parse_document(text: str) -> Any:
    """The one document in `text` as dicts, lists and scalars.

    Raises ConfigErrors for text that is not YAML, for several documents, and for every duplicate key.
    """
    if text.lstrip().startswith("{"):
        text = text.replace("\t", " ")  # JSON may be indented with tabs, and has none inside its strings
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError) as cause:
        raise ConfigErrors([ConfigError("", _syntax_problem(cause))]) from None
    except RecursionError:
        raise ConfigErrors([ConfigError("", "nested too deeply")]) from None
    if root is None:
        return None
    reader = _NodeReader()
    value = reader.read(root, "", 0)
    if reader.errors:
        raise ConfigErrors(reader.errors)
    return value


def plain(value: Any) -> Any:
    """Structs and tuples converted to dicts and lists, as `parse_document` returns them."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _syntax_problem(cause: Exception) -> str:
    if isinstance(cause, yaml.MarkedYAMLError):
        mark = cause.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        said = ", ".join(part for part in (cause.context, cause.problem) if part)
        return f"cannot read YAML or JSON: {place}{said}"
    return f"cannot read YAML or JSON: {' '.join(str(cause).split())}"


class _NodeReader:
    """Walks a composed YAML node; collects duplicate keys instead of stopping at the first."""

    def __init__(self) -> None:
        self.errors: list[ConfigError] = []
        self._left = MAX_NODES

    def read(self, node: yaml.Node, path: str, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            raise ConfigErrors([ConfigError(path, "the document is too large or too deeply nested")])
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, index(path, i), depth + 1) for i, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        try:
            text = node.value.encode("utf-16", "surrogatepass").decode("utf-16")  # joins escaped pairs
        except UnicodeDecodeError:
            problem = "text with half of a surrogate pair is not Unicode"
            raise ConfigErrors([ConfigError(path, problem)]) from None
        return _scalar(text, quoted=node.style is not None)

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                problem = f"line {key_node.start_mark.line + 1}: a key must be text"
                raise ConfigErrors([ConfigError(path, problem)])
            key = key_node.value
            if key == "<<" and key_node.style is None:
                merged = self._merge(value_node, path, depth) | merged
                continue
            if key in own:
                self.errors.append(_duplicate_key(path, key, key_node))
            own[key] = self.read(value_node, child(path, key), depth + 1)
        return merged | own

    def _merge(self, node: yaml.Node, path: str, depth: int) -> dict[str, Any]:
        value = self.read(node, path, depth + 1)
        parts = value if isinstance(value, list) else [value]
        result: dict[str, Any] = {}
        for part in parts:
            if not isinstance(part, dict):
                raise ConfigErrors([ConfigError(path, "a merge key (<<) must name a mapping")])
            result = part | result
        return result


def _duplicate_key(path: str, key: str, node: yaml.Node) -> ConfigError:
    field = child(path, key)
    line = node.start_mark.line + 1
    return ConfigError(field, f'line {line}: key "{key}" already set in map (duplicate field "{field}")')


def reads_as_text(text: str) -> bool:
    """Whether `text` stays text when it is written without quotes."""
    return isinstance(_scalar(text, quoted=False), str)


def _scalar(text: str, quoted: bool) -> Any:
    if quoted:
        return text
    for reads in _SCALARS:
        known, value = reads(text)
        if known:
            return value
    return text


def _word(text: str) -> tuple[bool, Any]:
    if text in _NULL:
        return True, None
    if text in _TRUE or text in _FALSE:
        return True, text in _TRUE
    return False, None


def _integer(text: str) -> tuple[bool, Any]:
    digits = text.replace("_", "") if text[:1] != "_" else text
    for pattern, base in _INTEGERS:
        match = pattern.fullmatch(digits)
        if match and len(digits) <= _MAX_DIGITS:
            value = int(match[1] + match[2], base)
            return True, value if -(2**63) <= value < 2**64 else float(value)
    return False, None


def _float(text: str) -> tuple[bool, Any]:
    if not _FLOAT.fullmatch(text):
        return False, None
    value = float(text)
    return math.isfinite(value), value


_SCALARS: Final[tuple[Callable[[str], tuple[bool, Any]], ...]] = (_word, _integer, _float)
