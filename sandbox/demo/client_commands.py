"""Commands of the demo without kubectl: the official client does what the chapters ask of kubectl.

It understands the few verbs and flags that the chapters use. Muster's plugins run as programs of their own.
"""

from __future__ import annotations

import argparse
import re
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

import yaml

from sandbox.demo.api_objects import ApiObjects, RequestRefused
from sandbox.demo.client_tables import custom_columns, event_table, server_table
from sandbox.demo.commands import CommandEnvironment, CommandTooSlow, NeedsKubectl, Outcome
from sandbox.objects import Obj, has_condition

PLUGINS: Final = ("elasticquota", "podgroup")
WITHIN_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.05
_TAIL: Final = " | tail -1"
_COLUMNS: Final = "custom-columns="


class ClientCommands:
    """Runs those commands of the chapters that need no kubectl."""

    def __init__(self, environment: CommandEnvironment, objects: ApiObjects) -> None:
        self._environment = environment
        self._objects = objects
        self._verbs: dict[str, Callable[[argparse.Namespace], Iterator[str]]] = {
            "apply": self._apply,
            "replace": self._replace,
            "delete": self._delete,
            "wait": self._wait,
            "cordon": self._cordon,
            "uncordon": self._cordon,
            "get": self._get,
            "events": self._events,
        }

    @staticmethod
    def line(command: str) -> str:
        """A plugin behind a prompt, because it can be repeated; else what the client does."""
        words = _words(command)
        if words[0] in PLUGINS:
            return f"$ kubectl-{shlex.join(words)}"
        _parse(command, words)
        said = command.removesuffix(_TAIL).removeprefix("kubectl ").replace(" --server-side", "")
        return f"client: {re.sub(r'-f (?=[^ ])', '', said)}"

    def run(self, command: str) -> Outcome:
        """Run a command. Raises NeedsKubectl, CommandTooSlow."""
        words = _words(command)
        if words[0] in PLUGINS:
            return self._environment.run([f"kubectl-{words[0]}", *words[1:]])
        asked = _parse(command, words)
        said: list[str] = []
        code = 0
        try:
            for line in self._verbs[asked.verb](asked):
                said.append(line)
        except RequestRefused as refusal:
            said.append(str(refusal))
            code = 1
        except TimeoutError:
            raise CommandTooSlow(command, WITHIN_SECONDS) from None
        lines = said[-1:] if command.endswith(_TAIL) and not code else said
        return Outcome(code, "".join(f"{line}\n" for line in lines))

    # Verbs: each yields the lines that it prints

    def _apply(self, asked: argparse.Namespace) -> Iterator[str]:
        for document in self._documents(asked.files):
            title, new = self._objects.apply(document)
            yield f"{title} {'created' if new else 'configured'}"

    def _replace(self, asked: argparse.Namespace) -> Iterator[str]:
        for document in self._documents(asked.files):
            yield f"{self._objects.replace(document)} replaced"

    def _documents(self, files: list[str]) -> Iterator[Obj]:
        for file in files:
            text = (self._environment.folder / Path(file)).read_text(encoding="utf-8")
            yield from (document for document in yaml.safe_load_all(text) if document)

    def _delete(self, asked: argparse.Namespace) -> Iterator[str]:
        names = asked.names or self._names(asked.kind, asked.namespace)
        for name in names:
            self._objects.delete(asked.kind, name, asked.namespace)
            yield f"{self._objects.title(asked.kind, name)} deleted"
        for name in names:
            self._until(asked, name, lambda found: found is None)

    def _names(self, kind: str, namespace: str) -> list[str]:
        return [item["metadata"]["name"] for item in self._objects.list(kind, namespace)]

    def _wait(self, asked: argparse.Namespace) -> Iterator[str]:
        condition = asked.condition.removeprefix("condition=")
        asked.kind, _, name = asked.target.partition("/")
        for one in [name] if name else self._names(asked.kind, asked.namespace):
            self._until(asked, one, lambda found: has_condition(found, condition))
            yield f"{self._objects.title(asked.kind, one)} condition met"

    def _until(self, asked: argparse.Namespace, name: str, holds: Callable[[Obj | None], bool]) -> None:
        """Wait until a condition holds of an object or of its absence. Raises TimeoutError."""
        deadline = time.monotonic() + WITHIN_SECONDS
        while not holds(self._objects.get(asked.kind, name, asked.namespace)):
            if time.monotonic() >= deadline:
                raise TimeoutError
            time.sleep(_POLL_SECONDS)

    def _cordon(self, asked: argparse.Namespace) -> Iterator[str]:
        self._objects.merge("nodes", asked.name, {"spec": {"unschedulable": asked.verb == "cordon"}})
        yield f"node/{asked.name} {asked.verb}ed"

    def _get(self, asked: argparse.Namespace) -> Iterator[str]:
        namespace = None if asked.everywhere else asked.namespace
        selectors = {"label_selector": asked.labels, "field_selector": asked.fields}
        if asked.output:
            items = self._objects.list(asked.kind, namespace, **selectors)
            yield from custom_columns(items, asked.output.removeprefix(_COLUMNS))
        else:
            found = self._objects.table(asked.kind, namespace, asked.name or "", **selectors)
            shown = asked.label_columns.split(",") if asked.label_columns else []
            yield from server_table(found, shown, namespaces=asked.everywhere)

    def _events(self, asked: argparse.Namespace) -> Iterator[str]:
        kind, _, name = (asked.subject or "").partition("/")
        events = self._objects.list("events", asked.namespace)
        yield from event_table(
            [
                event
                for event in events
                if (
                    not name
                    or (event["involvedObject"]["kind"].lower(), event["involvedObject"]["name"])
                    == (kind, name)
                )
                and asked.types in (None, event["type"])
            ],
            time.time(),
        )


class _Parser(argparse.ArgumentParser):
    """Raises ValueError where argparse would end the program."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _words(command: str) -> list[str]:
    """The words after `kubectl`. Raises NeedsKubectl for a pipeline and for another program."""
    words = shlex.split(command.removesuffix(_TAIL))
    if len(words) < 2 or words[0] != "kubectl" or "|" in words:
        raise NeedsKubectl(command)
    return words[1:]


def _parse(command: str, words: list[str]) -> argparse.Namespace:
    try:
        asked = _PARSER.parse_args(words)
    except ValueError:
        raise NeedsKubectl(command) from None
    if not (getattr(asked, "output", "") or _COLUMNS).startswith(_COLUMNS):
        raise NeedsKubectl(command)
    return asked


def _verbs() -> _Parser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", required=True)

    def verb(name: str, *positional: tuple[str, str | None], flags: dict[str, dict[str, Any]]) -> None:
        made = verbs.add_parser(name, add_help=False, allow_abbrev=False)
        for argument, count in positional:
            made.add_argument(argument, nargs=count)
        for flag, options in flags.items():
            made.add_argument(flag, **options)

    namespace: dict[str, dict[str, Any]] = {"-n": {"dest": "namespace", "default": "default"}}
    files: dict[str, dict[str, Any]] = {"-f": {"dest": "files", "action": "append", "required": True}}
    verb("apply", flags={**files, "--server-side": {"action": "store_true"}})
    verb("replace", flags=files)
    verb("delete", ("kind", None), ("names", "*"), flags={**namespace, "--all": {"action": "store_true"}})
    verb(
        "wait",
        ("target", None),
        flags={
            **namespace,
            "--for": {"dest": "condition", "required": True},
            "--all": {"action": "store_true"},
            "--timeout": {},
        },
    )
    for name in ("cordon", "uncordon"):
        verb(name, ("name", None), flags={})
    verb(
        "get",
        ("kind", None),
        ("name", "?"),
        flags={
            **namespace,
            "-A": {"dest": "everywhere", "action": "store_true"},
            "-l": {"dest": "labels"},
            "-L": {"dest": "label_columns"},
            "-o": {"dest": "output"},
            "--field-selector": {"dest": "fields"},
        },
    )
    verb("events", flags={**namespace, "--for": {"dest": "subject"}, "--types": {}})
    return parser


_PARSER: Final = _verbs()
