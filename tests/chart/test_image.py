"""The image holds what it needs, pinned with hashes, and nothing runs in it as root."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.chart.rendering import CHART

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()
LOCKS = ("requirements.lock", "requirements-build.lock")


def locked(name: str) -> dict[str, tuple[str, int]]:
    """Version and number of hashes by normalised project name."""
    text = (ROOT / name).read_text()
    entries = re.findall(r"^([a-z0-9-]+)==(\S+) \\\n((?:    --hash=\S+(?: \\)?\n)+)", text, re.M)
    assert len(entries) == len(re.findall(r"^[a-z]\S*==", text, re.M)), f"{name} has entries without hashes"
    return {project: (version, hashes.count("--hash=sha256:")) for project, version, hashes in entries}


def copied() -> set[str]:
    return {
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.M)
        for source in line.split()[:-1]
    }


@pytest.mark.parametrize("wanted", PROJECT["project"]["dependencies"])
def test_dependency_is_pinned_to_a_version_that_the_project_takes(wanted: str) -> None:
    requirement = Requirement(wanted)
    pinned, hashes = locked("requirements.lock")[requirement.name.lower().replace("_", "-")]
    assert pinned in requirement.specifier
    assert hashes


def reachable() -> dict[str, list[Requirement]]:
    """Who is wanted by the project or by what it wants, with all that is asked of it.

    Packages say themselves what they want, where the version installed here is the pinned one.
    """
    lock = locked("requirements.lock")
    found: dict[str, list[Requirement]] = {}
    todo = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        seen = name in found
        found.setdefault(name, []).append(wanted)
        if not seen and lock.get(name, ("", 0))[0] == version(name):
            asked = (Requirement(text) for text in requires(name) or ())
            extras = ["", *wanted.extras]
            todo += [
                more
                for more in asked
                if more.marker is None or any(more.marker.evaluate({"extra": extra}) for extra in extras)
            ]
    return found


def test_dependencies_of_dependencies_are_pinned() -> None:
    lock = locked("requirements.lock")
    for name, asked in reachable().items():
        assert name in lock, f"{name} is not pinned"
        pinned, hashes = lock[name]
        assert all(pinned in wanted.specifier for wanted in asked), (name, pinned, asked)
        assert hashes


def test_the_build_system_of_the_package_is_pinned() -> None:
    (wanted,) = (Requirement(text) for text in PROJECT["build-system"]["requires"])
    assert locked("requirements-build.lock")[wanted.name][0] in wanted.specifier


@pytest.mark.parametrize("lock", LOCKS)
def test_every_installation_checks_hashes(lock: str) -> None:
    lines = [line for line in DOCKERFILE.splitlines() if f"-r {lock}" in line]
    assert lines
    assert all("--require-hashes" in line for line in lines)


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_place(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    assert not re.search(r"^--(?!hash)", text, re.M)


def test_copied_files_exist_and_are_sent_to_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    for source in copied():
        assert (ROOT / source).exists()
        assert f"!{source}" in ignored


def test_every_package_of_the_project_is_in_it() -> None:
    found = {name.removesuffix("*") for name in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert found <= copied()


def test_it_runs_as_the_user_that_the_chart_names() -> None:
    final = DOCKERFILE.rpartition("\nFROM ")[2]
    user = re.search(r"^USER (\d+):(\d+)$", final, re.M)
    assert user
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    assert f"runAsUser: {user[1]}\n" in helpers
    assert f"runAsGroup: {user[2]}\n" in helpers


def test_the_commands_of_the_chart_are_the_project_s() -> None:
    for name in ("scheduler", "webhook"):
        text = (CHART / "templates" / name / "deployment.yaml").read_text()
        command = re.search(r"command: \[([\w-]+)", text)
        assert command
        assert command[1] in PROJECT["project"]["scripts"]


def test_chart_and_project_have_one_version() -> None:
    chart = (CHART / "Chart.yaml").read_text()
    assert re.search(r"^appVersion: (.+)$", chart, re.M)[1] == PROJECT["project"]["version"]  # type: ignore[index]
