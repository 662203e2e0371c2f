"""kubectl's JSONPath templates, the part of them that people use.

`{.items[*].metadata.name}`, `{range .items[*]}{.a.b}{"\\n"}{end}`, `['key.with/dots']`, `.key\\.with\\.dots`,
indexes (also negative) and slices, `..name` is not supported, nor are filters. Missing fields print nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from kubectl_plugin.entry import CommandFailed
from scheduler_core.decoding import decode

_STEP: Final = re.compile(
    r"\.(?P<name>(?:\\.|[^.\[\]\s{}\\])+)"
    r"|\[(?P<quote>['\"])(?P<key>.*?)(?P=quote)\]"
    r"|\[(?P<all>\*)\]"
    r"|\[(?P<start>-?\d{0,9})(?P<colon>:)?(?P<end>-?\d{0,9})\]"
)
_TOKEN: Final = re.compile(
    r"\{(?P<code>(?:[^{}\"']|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')*)\}|(?P<text>[^{]+)|(?P<bad>\{)"
)

Step = str | int | slice
_EVERY: Final = slice(None)


def parse_path(text: str) -> tuple[Step, ...]:
    """Steps of a path: names, indexes, slices. Raises CommandFailed for what is not understood."""
    path = text.strip()
    if path.startswith("{") and path.endswith("}"):
        path = path[1:-1].strip()
    path = path.removeprefix("$").removeprefix("@")
    if path and path[0] not in ".[":
        path = "." + path
    steps: list[Step] = []
    position = 0 if path != "." else 1
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise CommandFailed(f"JSONPath {text!r}: {path[position:]!r} is not supported")
        steps.append(_step(match, text))
        position = match.end()
    return tuple(steps)


def _step(match: re.Match[str], text: str) -> Step:
    if match["name"] is not None:
        name = re.sub(r"\\(.)", r"\1", match["name"])
        return _EVERY if name == "*" else name
    if match["key"] is not None:
        return match["key"]
    if match["all"]:
        return _EVERY
    start, end = match["start"], match["end"]
    if match["colon"]:
        return slice(int(start) if start else None, int(end) if end else None)
    if not start:
        raise CommandFailed(f"JSONPath {text!r}: [] needs an index")
    return int(start)


def find(document: Any, path: Sequence[Step]) -> list[Any]:
    """Every value that the path leads to, in order; fields that are missing lead nowhere."""
    found = [document]
    for step in path:
        found = [value for item in found for value in _descend(item, step)]
    return found


def _descend(item: Any, step: Step) -> Iterator[Any]:
    if isinstance(step, str):
        if isinstance(item, dict) and step in item:
            yield item[step]
    elif isinstance(step, slice):
        if isinstance(item, list):
            yield from item[step]
        elif isinstance(item, dict) and step == _EVERY:
            yield from (item[key] for key in sorted(item))
    elif isinstance(item, list) and -len(item) <= step < len(item):
        yield item[step]


def text_of(value: Any) -> str:
    """A value in the output: text as it is, everything else as compact JSON."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value, order="sorted").decode()


class _Range(msgspec.Struct, frozen=True):
    path: tuple[Step, ...]
    body: tuple[Any, ...]


def parse_template(template: str) -> tuple[Any, ...]:
    """Parts of a template: literal text, paths and ranges. Raises CommandFailed."""
    opened: list[tuple[tuple[Step, ...], list[Any]]] = [((), [])]
    for match in _TOKEN.finditer(template):
        if match["bad"]:
            raise CommandFailed(f"JSONPath {template!r}: unclosed action")
        code = (match["code"] or "").strip()
        if match["text"] is not None:
            opened[-1][1].append(match["text"])
        elif code.startswith("range "):
            opened.append((parse_path(code[len("range ") :]), []))
        elif code == "end":
            if len(opened) == 1:
                raise CommandFailed(f"JSONPath {template!r}: {{end}} without {{range}}")
            path, body = opened.pop()
            opened[-1][1].append(_Range(path, tuple(body)))
        elif code[:1] in "\"'" and code:
            opened[-1][1].append(_unquoted(code, template))
        else:
            opened[-1][1].append(parse_path(code))
    if len(opened) > 1:
        raise CommandFailed(f"JSONPath {template!r}: {{range}} without {{end}}")
    return tuple(opened[0][1])


def _unquoted(code: str, template: str) -> str:
    try:
        return decode(f'"{code[1:-1]}"', str)
    except msgspec.DecodeError:
        raise CommandFailed(f"JSONPath {template!r}: {code} is not a text") from None


def render(template: str, document: Any) -> str:
    """The template filled in; several values of one path are separated by spaces."""
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
    """Positions of the objects in the order of the field at `path`: missing first, numbers before text.

    Quantities compare by what they say: `500m` is less than `2`.
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
