"""Every command in a block of the documents is pasted by a test, or has a named test or a reason for none.

The pages in `PASTED` are pasted block by block (`tests/e2e/documents`); the tables here are about the others.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

from tests.support.documents import PAGES, commands, fenced
from tests.support.every import every_case
from tests.support.pasted_pages import ELSEWHERE, PASTED, Elsewhere, story
from tests.support.stages import stages

TESTS = Path(__file__).parents[1]
# The function of the test -> patterns of "page: command". A name, no path: a test may move. Where a test only
# parses command lines, what they print is tested in tests/unit/kubectl_plugin/commands.
RUN_BY = {
    "test_every_documented_command_line_is_understood": (
        "docs/cli.md: kubectl elasticquota *",
        "docs/cli.md: kubectl podgroup *",
        "examples/README.md: kubectl podgroup rank group-a",
    ),
    "test_a_tenant_of_the_sandbox_has_the_rights_of_its_role": (
        "docs/sandbox.md: kubectl create namespace team-a",
        "docs/sandbox.md: kubectl create rolebinding alice *",
        "docs/sandbox.md: kubectl --as alice *",
        "docs/sandbox.md: kubectl create token default *",
    ),
    "test_a_more_important_pod_takes_nothing_from_another_namespace": (
        "examples/README.md: for number in 1 2 3; do kubectl create namespace quota$number; done",
        "examples/README.md: kubectl apply -f capacity/one-namespace-*",
        "examples/README.md: kubectl events -n quota2",
    ),
    "test_two_borrowers_on_two_nodes_go_for_one_pod": (
        "examples/README.md: for number in 1 2; do kubectl create namespace quota$number; done",
        "examples/README.md: kubectl apply -f capacity/across-nodes-*",
        "examples/README.md: kubectl get pods -A -o wide",
    ),
    "test_the_job_of_eight": (
        "examples/README.md: kubectl create namespace sakkara",
        "examples/README.md: kubectl create -f topology/*",
    ),
    "test_tour_of_gangs_from_owners": (
        "examples/README.md: kubectl apply -f examples/gangs-from-owners/*",
        "examples/README.md: kubectl get podgroups.incubator.scheduling.k8s.io -n fleet",
        "examples/README.md: kubectl podgroup status jobset-convoy -n fleet",
        "examples/README.md: kubectl get pods -n fleet *",
        "examples/README.md: kubectl delete jobset convoy -n fleet",
    ),
    "test_the_emergency_command_works_and_an_upgrade_takes_it_back": (
        "*: kubectl delete validatingwebhookconfiguration,*",
    ),
    "test_the_commands_of_the_document_run": ("docs/replay.md: muster-sandbox replay *",),
    "test_the_command_opens_the_console": ("docs/console.md: kubectl elasticquota ui",),
    "test_sums_go_on_after_restarts": ("docs/history.md: kubectl elasticquota history *",),
    "test_rbac_decides_who_sees_the_cache": ("docs/operations.md: curl *",),
}
# Patterns of "page: command" -> why no test runs them.
NOT_RUN = {
    "docs/webhook.md: muster-webhook *": "end-to-end tests start the program with these flags and free ports",
    "docs/webhook.md: kubectl delete validatingadmissionpolicybinding *": "a policy without its binding is "
    "Kubernetes' own behaviour",
    "docs/testing.md: python -m tests.tools.approved*": "it writes files of the repository anew",
    "docs/testing.md: make mutants*": "it takes an hour; `make nightly` runs it",
    "docs/operations.md: kubectl describe *": "it prints what `kubectl get events` does, which tests read",
    "docs/operations.md: kubectl get pod train-17 *": "it prints a condition that tests read from the API",
    "docs/operations.md: kubectl -n muster-system port-forward *": "it needs a kubelet",
    "docs/console.md: kubectl -n muster-system port-forward *": "it needs a kubelet",
    "docs/console.md: helm upgrade *": "it needs an image; tests render the chart and run the program",
    "examples/README.md: kubectl apply -f charts/muster/crds/": "the fixture of the end-to-end tests does it",
    "examples/README.md: muster-scheduler --config examples/scheduler-config.yaml": "the demo starts the "
    "scheduler with this file, beside its own kubeconfig",
    "examples/README.md: cd examples/seeds": "tests name the files by their whole path",
}
COMMANDS = sorted(
    {
        f"{page}: {command}"
        for page in PAGES
        if page not in PASTED
        for command in commands(page, "sh", "bash", "console")
    }
)
PATTERNS = [*(pattern for patterns in RUN_BY.values() for pattern in patterns), *NOT_RUN]


def matches(command: str, pattern: str) -> bool:
    return fnmatchcase(command, pattern.replace("[", "[[]"))


@every_case("command", COMMANDS)
def test_every_command_is_run_by_a_test_or_listed_with_the_reason(command: str) -> None:
    assert [pattern for pattern in PATTERNS if matches(command, pattern)], "add it to RUN_BY or NOT_RUN"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_line_of_the_table_is_about_a_command_that_is_gone(pattern: str) -> None:
    assert [command for command in COMMANDS if matches(command, pattern)]


def files_with(name: str) -> list[Path]:
    """The files that have a test function of this name."""
    return _defined().get(name, [])


@cache
def _defined() -> dict[str, list[Path]]:
    """The files of all tests, by the names of their functions."""
    found: dict[str, list[Path]] = {}
    for path in TESTS.rglob("test_*.py"):
        for name in set(re.findall(r"^def (\w+)\(", path.read_text(encoding="utf-8"), re.M)):
            found.setdefault(name, []).append(path)
    return found


@pytest.mark.parametrize("name", RUN_BY)
def test_the_named_test_exists(name: str) -> None:
    assert len(files_with(name)) == 1


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 30


@pytest.mark.parametrize("entry", ELSEWHERE, ids=lambda entry: entry.contains)
def test_a_block_that_is_not_pasted_runs_elsewhere(entry: Elsewhere) -> None:
    assert [block.page for block in fenced(entry.page) if entry.contains in block.body] == [entry.page]
    if entry.by.startswith("stage "):
        assert entry.by.removeprefix("stage ") in stages()
    else:
        assert len(files_with(entry.by)) == 1


@pytest.mark.parametrize("page", PASTED)
def test_a_file_that_the_reader_saves_is_used(page: str) -> None:
    saved = [block for block in story(page) if block.language == "yaml"]
    unused = [
        block.where
        for block in saved
        if not any(Path(block.file).name in other.body for other in fenced(page) if other != block)
    ]
    assert unused == []
