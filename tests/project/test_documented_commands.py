"""Every command in a block of the documents has a named test, or the reason why no test runs it."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.support.documents import PAGES, commands

TESTS = Path(__file__).parents[1]
# The function of the test -> patterns of "page: command". A name, no path: a test may move. Where a test only
# parses command lines, what they print is tested in tests/unit/kubectl_plugin/commands.
RUN_BY = {
    "test_the_ten_minutes_of_the_readme": (
        "README.md: muster-sandbox up --all --nodes 3",
        "README.md: kubectl apply -f examples/*",
        "README.md: kubectl elasticquota lending -A",
        "README.md: kubectl events -n urgent",
        "README.md: kubectl get events -n analytics --field-selector reason=Preempted",
        "README.md: kubectl elasticquota get -A",
        "README.md: kubectl explain elasticquota.spec",
    ),
    "test_every_chapter_comes_out_as_the_story_says": (
        "README.md: make demo",
        "README.md: kubectl replace -f examples/two-teams/wrong-max-over-hard.yaml",
        "README.md: kubectl events -n team-a --for pod/train-4",
        "README.md: kubectl events -n vision --for pod/detect-2",
        "README.md: kubectl elasticquota get -A -o wide",
        "README.md: kubectl get events -n team-a --field-selector reason=Preempted",
        "README.md: kubectl podgroup rank group-a",
    ),
    "test_every_documented_command_line_is_understood": (
        "README.md: kubectl elasticquota lint -A",
        "docs/cli.md: kubectl elasticquota *",
        "docs/cli.md: kubectl podgroup *",
        "examples/README.md: kubectl podgroup rank group-a",
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
    "test_the_trial_says_that_the_webhook_was_asked_and_answered": (
        "docs/install.md: helm install muster charts/muster *",
        "docs/install.md: mkdir -p /etc/kubernetes/webhooks",
        "docs/install.md: cd /etc/kubernetes/webhooks",
        "docs/install.md: openssl *",
        "docs/install.md: printf 'basicConstraints=*",
        "docs/install.md: chmod 600 ca.key client.key",
        "docs/install.md: kubectl -n muster-system create secret generic webhook-clients *",
        "docs/install.md: helm upgrade muster * --set webhook.clientCA.secretName=webhook-clients *",
        "docs/install.md: kubectl create --dry-run=server -f - <<EOF",
    ),
    "test_tour_of_gangs_from_owners": (
        "examples/README.md: kubectl apply -f examples/gangs-from-owners/*",
        "examples/README.md: kubectl get podgroups.incubator.scheduling.k8s.io -n fleet",
        "examples/README.md: kubectl podgroup status jobset-convoy -n fleet",
        "examples/README.md: kubectl get pods -n fleet *",
        "examples/README.md: kubectl delete jobset convoy -n fleet",
        "docs/gangs.md: kubectl label namespace team-a muster.dev/gang=auto",
    ),
    "test_an_upgrade_keeps_the_certificates_authorities": (
        "docs/install.md: helm upgrade muster charts/muster * --reset-then-reuse-values",
    ),
    "test_the_emergency_command_works_and_an_upgrade_takes_it_back": (
        "*: kubectl delete validatingwebhookconfiguration,*",
    ),
    "test_after_uninstall_nothing_blocks_the_cluster": (
        "docs/install.md: helm uninstall muster --namespace muster-system",
    ),
    "test_rbac_decides_who_sees_the_cache": ("docs/operations.md: curl *",),
}
# Patterns of "page: command" -> why no test runs them.
NOT_RUN = {
    "README.md: make test": "it is what runs the tests",
    "*: source .venv/bin/activate": "tests put the same folder on PATH",
    "*: docker *": "it needs a container engine; `.ci/run` builds the image where there is one",
    "README.md: helm install *": "the same command of docs/install.md is run, with its long flags",
    "*: kubectl -n muster-system rollout status *": "it waits for pods of an image, which nobody publishes",
    "docs/install.md: kubectl label namespace *": "tests check the pods' settings against the "
    "standard instead, as no image runs in tests",
    "docs/install.md: kubectl apply --server-side --force-conflicts *": "end-to-end tests apply the "
    "definitions, without other owners of their fields",
    "docs/install.md: kubectl delete -f charts/muster/crds/": "other tests use these definitions",
    "docs/install.md: kubectl delete namespace muster-system": "a real API server without controllers "
    "never finishes it",
    "docs/webhook.md: muster-webhook *": "end-to-end tests start the program with these flags and free ports",
    "docs/webhook.md: kubectl delete validatingadmissionpolicybinding *": "a policy without its binding is "
    "Kubernetes' own behaviour",
    "docs/testing.md: make mutants*": "it takes an hour; `make nightly` runs it",
    "docs/operations.md: kubectl describe *": "it prints what `kubectl get events` does, which tests read",
    "docs/operations.md: kubectl get pod train-17 *": "it prints a condition that tests read from the API",
    "docs/operations.md: kubectl -n muster-system port-forward *": "it needs a kubelet",
    "examples/README.md: kubectl apply -f charts/muster/crds/": "the fixture of the end-to-end tests does it",
    "examples/README.md: muster-scheduler --config examples/scheduler-config.yaml": "the demo starts the "
    "scheduler with this file, beside its own kubeconfig",
    "examples/README.md: cd examples/seeds": "tests name the files by their whole path",
}
COMMANDS = sorted(
    {f"{page}: {command}" for page in PAGES for command in commands(page, "sh", "bash", "console")}
)
PATTERNS = [*(pattern for patterns in RUN_BY.values() for pattern in patterns), *NOT_RUN]


def matches(command: str, pattern: str) -> bool:
    return fnmatchcase(command, pattern.replace("[", "[[]"))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_run_by_a_test_or_listed_with_the_reason(command: str) -> None:
    assert [pattern for pattern in PATTERNS if matches(command, pattern)], "add it to RUN_BY or NOT_RUN"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_line_of_the_table_is_about_a_command_that_is_gone(pattern: str) -> None:
    assert [command for command in COMMANDS if matches(command, pattern)]


@pytest.mark.parametrize("name", RUN_BY)
def test_the_named_test_exists(name: str) -> None:
    found = [
        path
        for path in TESTS.rglob("test_*.py")
        if re.search(rf"^def {name}\(", path.read_text(encoding="utf-8"), re.M)
    ]
    assert len(found) == 1


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 50
