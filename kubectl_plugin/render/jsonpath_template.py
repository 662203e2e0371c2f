"""`-o jsonpath` templates and `--sort-by`: paths, `{range}...{end}` and quoted text.

`{.items[*].metadata.name}`, `{range .items[*]}{.a.b}{"\\n"}{end}`. Filters are not supported. A missing field
prints nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from scheduler_core.decoding import decode
from scheduler_core.printing.jsonpath import BadJSONPath, Step, find, parse_path

_TOKEN: Final = re.compile(
    r"\{(?P<code>(?:[^{}\"']|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')*)\}|(?P<text>[^{]+)|(?P<bad>\{)"
)


def text_of(value: Any) -> str:
    """A value in the output: strings unquoted, other values as compact JSON."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value, order="sorted").decode()


class _Range(msgspec.Struct, frozen=True):
    path: tuple[Step, ...]
    body: tuple[Any, ...]


def parse_template(template: str) -> tuple[Any, ...]:
    """The parts of a template: literal texts, paths and ranges. Raises BadJSONPath."""
    opened: list[tuple[tuple[Step, ...], list[Any]]] = [((), [])]
    for match in _TOKEN.finditer(template):
        if match["bad"]:
            raise BadJSONPath(f"JSONPath {template!r}: unclosed action")
        code = (match["code"] or "").strip()
        if match["text"] is not None:
            opened[-1][1].append(match["text"])
        elif code.startswith("range "):
            opened.append((parse_path(code[len("range ") :]), []))
        elif code == "end":
            if len(opened) == 1:
                raise BadJSONPath(f"JSONPath {template!r}: {{end}} without {{range}}")
            path, body = opened.pop()
            opened[-1][1].append(_Range(path, tuple(body)))
        elif code[:1] in "\"'" and code:
            opened[-1][1].append(_unquoted(code, template))
        else:
            opened[-1][1].append(parse_path(code))
    if len(opened) > 1:
        raise BadJSONPath(f"JSONPath {template!r}: {{range}} without {{end}}")
    return tuple(opened[0][1])


def _unquoted(code: str, template: str) -> str:
    try:
        return decode(f'"{code[1:-1]}"', str)
    except msgspec.DecodeError:
        raise BadJSONPath(f"JSONPath {template!r}: {code} is not a text") from None


def render(template: str, document: Any) -> str:
    """The output of a template; spaces separate the values of one path. Raises BadJSONPath."""
    return _rendered(parse_template(template), document)


def _rendered(parts: Sequence[Any], document: Any) -> str:
    out = []
    for part in parts:
        if isinstance(part, str):
            out.append(part)
        elif isinstance(part, _Range):
            out += [_rendered(part.body, item) for item in find(document, part.path)]
        else:
            out.append(" ".join(text_of(value) for value in find(document, part)))
    return "".join(out)


def sort_order(objects: Sequence[Any], path: str) -> list[int]:
    """Positions of the objects, sorted by the field at `path`: missing first, numbers before text.

    Quantities compare by value: `500m` is less than `2`. Raises BadJSONPath.
    """
    steps = parse_path(path)
    keys = [_sort_key(find(item, steps)) for item in objects]
    return sorted(range(len(objects)), key=lambda i: keys[i])


def _sort_key(values: Sequence[Any]) -> tuple[int, int, str]:
    from scheduler_core.errors import ModelError
    from scheduler_core.model.quantity import parse_quantity

    if not values:
        return (0, 0, "")
    try:
        return (1, parse_quantity(values[0], scale=3), "")
    except ModelError:
        return (2, 0, text_of(values[0]))
