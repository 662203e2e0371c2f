"""The table of owner kinds: where an owner says how many of its pods start together, and how important.

The built-in table is `kinds.yaml`; an administrator adds entries in the same form. An added entry replaces
the built-in entries of its kind; without `minimum` it takes the kind out of the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from scheduler_core.decoding import convert
from scheduler_core.errors import MusterError
from webhook.owner_gangs.paths import ExpressionError, Number, Texts, number, texts

MOST_BYTES: Final = 256 * 1024
MOST_ENTRIES: Final = 256
# minMembers is an int32.
MOST_MEMBERS: Final = 2**31 - 1
_SEGMENT: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class TableError(MusterError):
    """An entry of the table that cannot be used: which entry, its field and value, and the rule."""

    def __init__(self, file: str, entry: str, field: str, value: object, rule: str) -> None:
        self.file = file
        self.entry = entry
        self.field = field
        self.value = value
        self.rule = rule
        super().__init__(file, entry, field, value, rule)

    def __str__(self) -> str:
        entry = f", entry {self.entry}" if self.entry else ""
        named = f" {self.field}={self.value!r}:" if self.field else ""
        return f"gang owners in {self.file}{entry}:{named} {self.rule}"


class _ConditionWire(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    path: str
    in_: tuple[str, ...] | None = msgspec.field(default=None, name="in")
    not_in: tuple[str, ...] | None = None
    equals: str | None = None
    absent: bool | None = None


class _EntryWire(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    group: str
    kind: str
    resource: str
    minimum: str = ""
    priority: str = ""
    version: str = ""
    when: tuple[_ConditionWire, ...] = ()
    members: tuple[_ConditionWire, ...] = ()
    each: str = ""
    named: str = ""
    rank: int = 0


class OwnerCondition(msgspec.Struct, frozen=True):
    """One condition on an object, decoded from JSON."""

    wire: _ConditionWire
    find: Texts
    left: Number | None = None
    right: Number | None = None

    def holds(self, root: Any) -> bool:
        """Whether the object fulfils it."""
        wire = self.wire
        if self.left is not None and self.right is not None:
            one = self.left(root)
            return one is not None and one == self.right(root)
        found = self.find(root)
        if wire.absent is not None:
            return (not found) == wire.absent
        if wire.in_ is not None:
            return any(text in wire.in_ for text in found)
        return not any(text in (wire.not_in or ()) for text in found)


class TableEntry(msgspec.Struct, frozen=True):
    """One entry, with its expressions read.

    `minimum` is None where the kind is taken out. `named`: pods name the object; else they are owned by it.
    `each`: a gang for each value that pods of one owner have. Of several owners the highest `rank` wins,
    then the topmost.
    """

    group: str
    kind: str
    resource: str
    minimum: Number | None
    priority: Texts | None = None
    version: str = ""
    when: tuple[OwnerCondition, ...] = ()
    members: tuple[OwnerCondition, ...] = ()
    each: Texts | None = None
    named: Texts | None = None
    rank: int = 0

    @property
    def source(self) -> str:
        """`Job.batch`, as kubectl names a kind with its group."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def count(self, owner: Any) -> int | None:
        """The minimum that an owner asks for; None where it has none or is no gang."""
        if self.minimum is None or not all(condition.holds(owner) for condition in self.when):
            return None
        found = self.minimum(owner)
        return found if found is not None and 1 <= found <= MOST_MEMBERS else None

    def has_member(self, pod: Any) -> bool:
        """Whether a pod of the owner is a member."""
        return all(condition.holds(pod) for condition in self.members)


class Table:
    """The entries by kind of owner, and those of objects that pods name."""

    def __init__(self, entries: Iterable[TableEntry]) -> None:
        self.entries: Sequence[TableEntry] = tuple(entries)
        self.by_kind: dict[tuple[str, str], list[TableEntry]] = {}
        for entry in self.entries:
            if entry.named is None:
                self.by_kind.setdefault((entry.group, entry.kind), []).append(entry)
        # What the names of groups of owners begin with, before the first `-`.
        self.prefixes: Mapping[str, str] = {kind.lower(): kind for _, kind in self.by_kind}
        self.named: Sequence[TableEntry] = tuple(entry for entry in self.entries if entry.named is not None)


@cache
def built_in() -> Table:
    """The table that Muster comes with."""
    text = files("webhook.owner_gangs").joinpath("kinds.yaml").read_text()
    return Table(read_entries(text, "kinds.yaml"))


def with_file(path: Path | None) -> Table:
    """The built-in table, with the entries of a file before it. Raises TableError."""
    if path is None:
        return built_in()
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise TableError(str(path), "", "", "", f"the file cannot be read: {error.strerror}") from None
    if len(raw) > MOST_BYTES:
        raise TableError(str(path), "", "", "", f"has {len(raw):,} bytes; {MOST_BYTES:,} are allowed")
    added = read_entries(raw.decode(errors="replace"), str(path))
    replaced = {(entry.group, entry.kind) for entry in added}
    kept = [entry for entry in built_in().entries if (entry.group, entry.kind) not in replaced]
    return Table([*(entry for entry in added if entry.minimum is not None), *kept])


def read_entries(text: str, file: str) -> list[TableEntry]:
    """Read a YAML list of entries. Raises TableError."""
    try:
        raw = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise TableError(file, "", "", "", f"is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(raw, list | None) or len(raw or ()) > MOST_ENTRIES:
        raise TableError(file, "", "", "", f"must be a list of at most {MOST_ENTRIES} entries")
    return [_entry(item, file, position) for position, item in enumerate(raw or (), 1)]


def _entry(raw: Any, file: str, position: int) -> TableEntry:
    kind = f" ({raw['kind']})" if isinstance(raw, Mapping) and raw.get("kind") else ""
    name = f"{position}{kind}"

    def broken(field: str, value: object, rule: str) -> TableError:
        return TableError(file, name, field, value, rule)

    try:
        wire = convert(raw, _EntryWire)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        raise broken("", "", f"{where.rstrip('`')}: {what}" if where else what) from None
    for field in ("group", "resource", "version"):
        value = getattr(wire, field)
        if _SEGMENT.fullmatch(value) is None and (value or field == "resource"):
            raise broken(field, value, "must be lower case letters, digits, '-' and '.'")
    if not wire.kind.isalnum() or not wire.kind.isascii():
        raise broken("kind", wire.kind, "must be letters and digits")
    if wire.named and not wire.version:
        raise broken("version", "", "must be given, as pods name the object and do not say its version")
    if wire.named and (wire.members or wire.each):
        raise broken("named", wire.named, "excludes members and each: the pods name their object themselves")
    return _compiled(wire, broken)


def _compiled(wire: _EntryWire, broken: Any) -> TableEntry:
    def expression(field: str, text: str, read: Any) -> Any:
        try:
            return read(text) if text else None
        except ExpressionError as error:
            raise broken(field, text, str(error)) from None

    def conditions(field: str, wires: tuple[_ConditionWire, ...]) -> tuple[OwnerCondition, ...]:
        found = []
        for one in wires:
            if sum(given is not None for given in (one.in_, one.not_in, one.equals, one.absent)) != 1:
                raise broken(field, one.path, "needs exactly one of in, notIn, equals and absent")
            find = expression(f"{field}.path", one.path, texts)
            if find is None:
                raise broken(f"{field}.path", "", "must not be empty")
            left = expression(f"{field}.path", one.path, number) if one.equals is not None else None
            right = expression(f"{field}.equals", one.equals or "", number)
            found.append(OwnerCondition(one, find, left, right))
        return tuple(found)

    return TableEntry(
        wire.group,
        wire.kind,
        wire.resource,
        expression("minimum", wire.minimum, number),
        expression("priority", wire.priority, texts),
        wire.version,
        conditions("when", wire.when),
        conditions("members", wire.members),
        expression("each", wire.each, texts),
        expression("named", wire.named, texts),
        wire.rank,
    )
