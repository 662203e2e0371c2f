"""A reader who pastes the blocks of a page, one after the other, and looks whether it comes out as shown."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from tests.support.documents import ROOT, Block
from tests.support.pasting import Terminal, difference
from tests.tools.build import have

UP = "muster-sandbox up"
MUSTER_WORKS = ("The webhook is registered.", "The scheduler is at work.")
SERVER_WORKS = ("Ctrl-C stops it.",)
INITIAL_NAMESPACES = {"default", "kube-node-lease", "kube-public", "kube-system"}


class Reader:
    """Two terminals in a copy of the repository: a sandbox runs in one, commands are typed in the other.

    `served_by` is the server of `muster-sandbox up`: the sandbox, or a real kube-apiserver. Placeholders of
    the documents get the values of `values`. Close it with `with`.
    """

    def __init__(self, folder: Path, served_by: str, values: dict[str, str] | None = None) -> None:
        self.folder = folder / "muster"
        self._values = values or {}
        self._sandboxes = ExitStack()
        self._serving = ""
        _checkout(self.folder)
        self._variables = _variables(folder)
        self._prelude = _real_server(folder, served_by)
        self._desk = Terminal(self.folder, self._variables)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        with self._sandboxes, self._desk:
            pass

    def use(self, kubeconfig: Path) -> None:
        """Have this kubeconfig in every terminal, as somebody who has a cluster already."""
        self._variables["KUBECONFIG"] = str(kubeconfig)

    def serve(self, body: str) -> Path:
        """Start the sandbox in a terminal of its own; the kubeconfig that the command names.

        One that runs already is used again, if the page before left it as good as new.
        """
        (name,) = re.findall(r"--kubeconfig (\S+)", body)
        kubeconfig = self.folder / name
        if body == self._serving:
            listed = self._said(f"kubectl --kubeconfig {kubeconfig} get namespaces -o name")
            namespaces = {line.partition("/")[2] for line in listed.split()}
            assert namespaces == INITIAL_NAMESPACES, "the page before did not delete its namespaces"
            return kubeconfig
        self._sandboxes.close()
        terminal = self._sandboxes.enter_context(Terminal(self.folder, self._variables))
        terminal.paste(self._prelude)
        terminal.paste_and_watch(body, *(MUSTER_WORKS if "--all" in body else SERVER_WORKS))
        self._serving = body
        return kubeconfig

    def follow(self, blocks: Iterable[Block]) -> None:
        """Paste these blocks and compare the output that they show; an AssertionError names the block."""
        self._desk.__exit__()
        self._desk = Terminal(self.folder, self._variables)
        last = ""
        for block in blocks:
            body = self._filled(block.body)
            match block.language:
                case "yaml":
                    self._save(block, body)
                case "text":
                    assert last, f"{block.where}: shows the output of no block"
                    differs = difference(body, last, only_end=True)
                    assert not differs, f"{block.where}: {differs}"
                case "console":
                    self._paste_and_compare(block, body)
                case "sh" if UP in body:
                    self.serve(body)
                case "sh":
                    last = self._paste(block, body)
                case other:
                    raise AssertionError(f"{block.where}: what does a reader do with {other or 'this'}?")

    def _said(self, command: str) -> str:
        """What a command prints that is in no document."""
        (pasted,) = self._desk.paste(command)
        assert not pasted.failed, f"{command}: {pasted.output}"
        return pasted.output

    def _filled(self, text: str) -> str:
        for name, value in self._values.items():
            text = text.replace(name, value)
        return text

    def _save(self, block: Block, body: str) -> None:
        assert block.file, f"{block.where}: the paragraph before does not name the file to save this in"
        path = self.folder / self._filled(block.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, encoding="utf-8")

    def _paste(self, block: Block, body: str) -> str:
        (pasted,) = self._desk.paste(body)
        assert not pasted.failed, f"{block.where}: {pasted.failed} failed:\n{pasted.output}"
        return pasted.output

    def _paste_and_compare(self, block: Block, body: str) -> None:
        typed = [part.partition("\n") for part in f"\n{body}".split("\n$ ")[1:]]
        for (command, _, shown), pasted in zip(
            typed, self._desk.paste(*(command for command, _, _ in typed)), strict=True
        ):
            differs = difference(shown, pasted.output)
            assert not differs, f"{block.where}: {command}: {differs}"
            refused = shown.startswith(("Error", "error"))
            assert bool(pasted.failed) == refused, f"{block.where}: {command}: {pasted.output}"


def _checkout(folder: Path) -> None:
    """The repository as its reader has it; what the reader writes beside its files stays out of it."""
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.name not in ("build", ".venv", ".git"):
            (folder / path.name).symlink_to(path)
    (folder / ".venv").symlink_to(sys.prefix)


def _variables(folder: Path) -> dict[str, str]:
    """The environment of a user who has kubectl and Helm, with a home of his own."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("kubectl", "helm"):
        (tools / name).symlink_to(have(name).path)
    path = os.pathsep.join((str(tools), os.environ["PATH"]))
    return {**os.environ, "PATH": path, "HOME": str(folder), "KUBERC": "off"}


def _real_server(folder: Path, served_by: str) -> str:
    """What makes `muster-sandbox up` of this shell serve with a kube-apiserver, if that is wanted."""
    if served_by == "sandbox":
        return ":"
    programs = folder / "control-plane"
    programs.mkdir()
    for name, tool in (("etcd", "etcd"), ("kube-apiserver", served_by)):
        (programs / name).symlink_to(have(tool).path)
    return f'muster-sandbox() {{ command muster-sandbox "$@" --kube-apiserver {programs}; }}'
