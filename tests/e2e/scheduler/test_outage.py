"""An outage of the webhook heals: who passed by is found, told, counted and brought back; nobody is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scheduler.test_gangs import ANNOTATION, create_group
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import create_node, create_quota, events, scheduler
from tests.support.clusters.service_proxy import ServiceProxy
from tests.support.eventually import eventually
from tests.support.passing_by import JobController, bind_elsewhere, elsewhere, pods_of
from tests.support.webhooks.process import WebhookProcess
from webhook.view.recreation import FIRST_PAUSE_SECONDS

Obj = dict[str, Any]
WAIT = 60.0
# Within which who passed by is found once a webhook is back: a round of the audit, and its watch.
FOUND = 60.0
MEMBERS, LOOSE = 40, 20
PASSED = 2 * MEMBERS + LOOSE
BOUND_EACH = 3

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]


class Hook:
    """The webhook behind its address, which stays while processes come and go."""

    def __init__(self, cluster: Cluster, folder: Path, service: ServiceProxy) -> None:
        self._cluster, self._folder, self._service = cluster, folder, service
        self.process: WebhookProcess | None = None

    def start(self, *flags: str) -> None:
        url = f"https://127.0.0.1:{self._service.port}"
        options = ("--cert-dir", str(self._folder / "certs"), "--drain", "0", "--register", "--url", url)
        self.process = WebhookProcess(self._cluster.server, self._folder / "webhook.log", *options, *flags)
        self._service.ports[:] = [self.process.port]

    def kill(self) -> None:
        """SIGKILL: nobody says goodbye."""
        assert self.process is not None
        self._service.ports.clear()
        self.process.kill()

    def passed_by(self) -> int:
        """The metric."""
        assert self.process is not None
        return self.process.passed_by()


@pytest.fixture
def hook(cluster: Cluster, tmp_path: Path) -> Iterator[Hook]:
    with ServiceProxy() as service:
        made = Hook(cluster, tmp_path, service)
        yield made
        if made.process is not None:
            made.process.kill()


def body(**metadata: Any) -> Obj:
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "100m"}}}
    return {"metadata": metadata, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}}


def create_job(cluster: Cluster, namespace: str, group: str) -> Obj:
    template = body()
    template["spec"]["restartPolicy"] = "Never"
    job = {
        "metadata": {"name": "train", "annotations": {ANNOTATION: group}},
        "spec": {"parallelism": MEMBERS, "completions": MEMBERS, "backoffLimit": 0, "template": template},
    }
    made: Obj = cluster.request("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", job)
    return made


def goes_to_muster(cluster: Cluster, namespace: str) -> bool:
    probe = cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body(name="probe"))
    return bool(probe["spec"]["schedulerName"] == "muster-scheduler")


def condition(cluster: Cluster, namespace: str, group: str) -> str:
    path = f"/apis/incubator.scheduling.k8s.io/v1alpha1/namespaces/{namespace}/podgroups/{group}"
    found = cluster.request("GET", path).get("status", {}).get("conditions") or ()
    return next((str(item["message"]) for item in found if item["type"] == "MembersElsewhere"), "")


def governed(cluster: Cluster, hook: Hook) -> str:
    """A namespace under a quota, with two gangs that may come, and nodes for all."""
    for name in ("one", "two"):
        create_node(cluster, name, "8")
    namespace = cluster.namespace()
    create_quota(cluster, namespace, {}, {"cpu": "12"})
    for group in ("direct", "of-job"):
        create_group(cluster, namespace, MEMBERS, group)
    hook.start()
    eventually(lambda: goes_to_muster(cluster, namespace), WAIT)
    return namespace


def passing(cluster: Cluster, namespace: str) -> None:
    """Bare pods that the webhook does not see: members of a gang, and others."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    for number in range(MEMBERS):
        cluster.request("POST", path, body(name=f"direct-{number}", annotations={ANNOTATION: "direct"}))
    for number in range(LOOSE):
        cluster.request("POST", path, body(name=f"loose-{number}"))


def bind_some(cluster: Cluster, namespace: str) -> set[str]:
    """The default scheduler takes some of each kind; their uids."""
    taken: Counter[str] = Counter()
    uids = set()
    for pod in elsewhere(cluster, namespace):
        kind = pod["metadata"]["name"].partition("-")[0]
        if taken[kind] < BOUND_EACH:
            taken[kind] += 1
            uids.add(pod["metadata"]["uid"])
            bind_elsewhere(cluster, pod, "one")
    return uids


def test_an_outage_is_found_told_counted_and_healed(cluster: Cluster, hook: Hook, tmp_path: Path) -> None:
    namespace = governed(cluster, hook)
    with ExitStack() as running:
        running.enter_context(scheduler(cluster, tmp_path))
        hook.kill()
        job = create_job(cluster, namespace, "of-job")
        passing(cluster, namespace)
        controller = running.enter_context(JobController(cluster, job, body))
        # What R6 is about: not one create failed, and every pod went elsewhere.
        assert len(elsewhere(cluster, namespace)) == PASSED
        taken = bind_some(cluster, namespace)
        refused = cluster.kubectl("elasticquota", "adopt", "-n", namespace, "--yes", check=False)
        assert (refused.returncode, "the webhook does not answer" in refused.stderr) == (1, True), refused

        hook.start()
        eventually(lambda: hook.passed_by() == PASSED, FOUND)
        eventually(lambda: len(told(cluster, namespace)) == PASSED, WAIT)
        said = (
            f"{MEMBERS} of {MEMBERS} members went to default-scheduler: {MEMBERS - BOUND_EACH} wait there, "
        )
        said += f"{BOUND_EACH} have a node and count; `kubectl podgroup adopt direct -n {namespace}`"
        eventually(lambda: said in condition(cluster, namespace, "direct"), WAIT)
        shown = cluster.kubectl("podgroup", "status", "direct", "-n", namespace).stdout
        assert f"Elsewhere:  {said}" in shown, shown
        eventually(lambda: goes_to_muster(cluster, namespace), WAIT)

        for arguments in (("--dry-run=client",), ("--dry-run=server",)):
            done = cluster.kubectl("podgroup", "adopt", "direct", "-n", namespace, *arguments)
            assert len(done.stdout.splitlines()) == MEMBERS - BOUND_EACH, done
        assert len(elsewhere(cluster, namespace)) == PASSED
        for group in ("direct", "of-job"):
            cluster.kubectl("podgroup", "adopt", group, "-n", namespace, "--yes")
        cluster.kubectl("elasticquota", "adopt", "-n", namespace, "--yes")

        def whole() -> bool:
            pods = pods_of(cluster, namespace)
            assert len(pods) == PASSED
            assert all(pod["spec"].get("nodeName") for pod in pods)
            return True

        eventually(whole, WAIT)
        eventually(lambda: hook.passed_by() == len(taken), FOUND)
    names = {pod["metadata"]["name"] for pod in pods_of(cluster, namespace)}
    bare = {f"direct-{number}" for number in range(MEMBERS)} | {f"loose-{number}" for number in range(LOOSE)}
    assert bare <= names
    assert {pod["metadata"]["uid"] for pod in elsewhere(cluster, namespace)} == taken
    assert controller.failed == 0, "the Job must not count what was brought back"
    members = Counter(
        pod["metadata"]["annotations"][ANNOTATION]
        for pod in pods_of(cluster, namespace)
        if "annotations" in pod["metadata"]
    )
    assert members == {"direct": MEMBERS, "of-job": MEMBERS}


def told(cluster: Cluster, namespace: str) -> set[str]:
    """The pods of which an Event says that they passed by."""
    found = events(cluster, namespace, "RuleBroken")
    return {
        event["regarding"]["name"]
        for event in found
        if "was created while the webhook was away" in event["note"]
    }


def test_where_a_policy_allows_it_a_gang_comes_back_by_itself(
    cluster: Cluster, hook: Hook, tmp_path: Path
) -> None:
    namespace = governed(cluster, hook)
    with ExitStack() as running:
        running.enter_context(scheduler(cluster, tmp_path))
        hook.kill()
        job = create_job(cluster, namespace, "of-job")
        controller = running.enter_context(JobController(cluster, job, body))
        cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body(name="bare"))
        taken = bind_some(cluster, namespace) - uid_of(cluster, namespace, "bare")
        hook.start("--adoption", "Recreate")

        def whole() -> bool:
            pods = [pod for pod in pods_of(cluster, namespace) if pod["metadata"]["name"] != "bare"]
            assert len(pods) == MEMBERS
            assert all(pod["spec"].get("nodeName") for pod in pods)
            return all(pod["metadata"]["annotations"][ANNOTATION] == "of-job" for pod in pods)

        # Where one pod was not seen at first, or not in time, the next turn is a minute later.
        eventually(whole, WAIT + FIRST_PAUSE_SECONDS)
        assert controller.failed == 0
    left = {pod["metadata"]["uid"] for pod in elsewhere(cluster, namespace)}
    assert left == taken | uid_of(cluster, namespace, "bare")


def uid_of(cluster: Cluster, namespace: str, name: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods_of(cluster, namespace) if pod["metadata"]["name"] == name}
