"""The house rules that can be measured: sizes, docstrings, words without a place here, working commands."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.makefile import make

ROOT = Path(__file__).parents[2]
PACKAGES = ("scheduler_core", "webhook", "kubectl_plugin", "sandbox")
FILE_LINES = 500
FUNCTION_LINES = 70
# Written in pieces, so that this file does not contain what it forbids.
FOLDERS = ("work", "root", "Users")
HOSTS = ("pypi" + ".org", "proxy.golang" + ".org", "registry.npmjs" + ".org", "pythonhosted" + ".org")
FORBIDDEN = re.compile(
    "|".join(
        [
            *(rf"(?<![\w.-])/{folder}/(?!muster)" for folder in FOLDERS),
            r"/home/(?!muster|nonroot)\w",
            *(re.escape(host) for host in HOSTS),
        ]
    )
)
# A text with a fault has one of these; to look for them costs a fiftieth.
SIGNS = (*(f"/{folder}/" for folder in (*FOLDERS, "home")), *HOSTS)
TEXT = {".py", ".md", ".toml", ".yaml", ".yml", ".json", ".sh", ".txt", ".tpl", ".mod", ""}
# Lock files that tools write; the addresses in them are the tools' own.
GENERATED = {"go.sum"}


def tracked() -> list[Path]:
    """Files of the repository as git sees them: committed, or new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


FILES = tracked()
SOURCES = [f for f in FILES if f.suffix == ".py" and f.relative_to(ROOT).parts[0] in PACKAGES]
SCRIPTS = sorted(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"])


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_sources_are_short_enough_to_read() -> None:
    long = [f"{named(path)}: {fault}" for path in SOURCES for fault in too_long(path.read_text())]
    assert long == []


DEF = re.compile(r"\s*(?:async )?def ")


def too_long(text: str) -> Iterator[str]:
    lines = text.count("\n")
    if lines > FILE_LINES:
        yield f"{lines} lines"
    if not may_have_long_functions(text):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            own = node.end_lineno - node.lineno + 1
            if own > FUNCTION_LINES:
                yield f"{node.name} ({own} lines)"


def may_have_long_functions(text: str) -> bool:
    """Whether so many lines stand between a function and the next one that is not deeper, or the end."""
    starts = [
        (number, len(line) - len(line.lstrip()))
        for number, line in enumerate(text.splitlines())
        if DEF.match(line)
    ]
    starts.append((text.count("\n") + 1, 0))
    return any(
        next(number for number, depth in starts[index:] if depth <= own) - start > FUNCTION_LINES
        for index, (start, own) in enumerate(starts[:-1], 1)
    )


def test_what_is_too_long_is_seen() -> None:
    function = "def f():\n" + "    pass\n" * (FUNCTION_LINES - 1)
    assert list(too_long(function)) == []
    assert list(too_long(function + "    pass\n")) == [f"f ({FUNCTION_LINES + 1} lines)"]
    assert list(too_long("\n" * (FILE_LINES + 1))) == [f"{FILE_LINES + 1} lines"]


# Behind comments and empty lines.
DOCSTRING = re.compile(r'(?:#.*\n|\s)*+"""\s*+[^\s"]')


def test_public_modules_say_what_they_are() -> None:
    mute = [
        named(path)
        for path in SOURCES
        if not path.name.startswith("_") or path.name == "__init__.py"
        if (text := path.read_text()).strip() and not DOCSTRING.match(text)
    ]
    assert mute == []


def test_no_machine_paths_or_registry_hosts() -> None:
    found = []
    for path in FILES:
        if path.suffix not in TEXT or path.name in GENERATED:
            continue
        text = path.read_text(errors="replace")
        if not any(sign in text for sign in SIGNS):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := FORBIDDEN.search(line):
                found.append(f"{named(path)}:{number}: {match[0]}")
    assert not found


@pytest.mark.parametrize("script", SCRIPTS)
def test_console_script_explains_itself(script: str) -> None:
    said = subprocess.run(
        [Path(sys.executable).parent / script, "--help"], capture_output=True, text=True, timeout=60
    )
    assert (said.returncode, said.stderr) == (0, "")
    assert "Usage:" in said.stdout


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_commands_of_documents_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.M))
    named_targets = set(re.findall(r"\bmake ([a-z0-9-]+)(?=[`\s]*(?:$|#|[`,.:;)]))", text, re.M))
    assert named_targets
    assert named_targets <= targets
    plugins = {f"kubectl {name.removeprefix('kubectl-')}" for name in SCRIPTS if name.startswith("kubectl-")}
    ours = set(re.findall(r"^(?:\$ )?(muster-\w+|kubectl (?:elasticquota|podgroup))\b", text, re.M))
    assert ours <= {*SCRIPTS, *plugins}


def test_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    listed = make("help")
    declared = re.search(r"^\.PHONY: (.+)$", makefile, re.M)
    assert declared
    assert {line.split()[0] for line in listed.splitlines()} == set(declared[1].split())
