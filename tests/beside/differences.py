"""Where Muster differs from Kubernetes on purpose: what, why, since which version of Kubernetes, and a test.

The column of differences and the table of docs/reference/plugins.md are made of it:

    python -m tests.beside.differences --write
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.model import names

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "plugins.md"
ALWAYS: Final = "always"
HEADING: Final = "## Differences"


@dataclass(frozen=True, slots=True)
class Row:
    """One difference.

    `of`: a plugin, or what else is compared. `since`: the first minor version of Kubernetes that does it in
    another way. `test`: a file of the tests that shows what Muster does. `key` names it where a comparison
    finds it: in `rig/meant.py` and `packages/meant.py`.
    """

    of: str
    what: str
    why: str
    test: str
    since: str = ALWAYS
    key: str = ""


# Plugins that kube-scheduler does not have.
OWN: Final = {
    names.CAPACITY_SCHEDULING: "Muster's own: elastic quotas",
    names.COSCHEDULING: "Muster's own: gangs",
    names.LOAD_AWARE_SCHEDULING: "Muster's own: real use of nodes",
    names.CLUSTER_TOPOLOGY_PLACEMENT_GROUP: (
        "Muster's own: groups on a topology; it filters in every profile that does not disable it by name "
        "([topology](../topology.md#where-it-is-on))"
    ),
}
CONFIGURATIONS, KUBECONFIGS = "Configurations", "kubeconfig files"
QUANTITIES, REQUESTS, RESOURCE_QUOTAS = "Quantities", "Requests of pods", "ResourceQuotas"
CLAIMS, FAIR_CLAIMS = "Claims within `nominalQuota` (Kueue)", "Fair sharing (Kueue)"

ROWS: Final = (
    Row(
        names.PRIORITY_SORT,
        "equal pods go by age and then by name, not by the time they entered the queue",
        "gangs never interleave",
        "tests/unit/plugins/test_queue_plugins.py",
    ),
    Row(
        names.NODE_AFFINITY,
        "nodes that `matchFields` leaves out count for what refuses them, under no text of their own",
        "one text for one cause, however it is found",
        "tests/unit/plugins/test_node_label_plugins.py",
        since="1.37",
        key="cut-off-nodes-have-reasons",
    ),
    Row(
        names.NODE_AFFINITY,
        "a preferred term with a negative bound (`Gt -1`) is scored",
        "the API server takes it; kube-scheduler fails the pod by an error",
        "tests/unit/plugins/test_node_label_plugins.py",
        key="negative-bounds-are-numbers",
    ),
    Row(
        names.TAINT_TOLERATION,
        "the reason names the taint",
        "who waits learns which toleration is missing",
        "tests/unit/plugins/test_node_label_plugins.py",
        since="1.35",
        key="taints-are-named",
    ),
    Row(
        names.NODE_RESOURCES_FIT,
        "at most 31 different resources",
        "a filter answers for all nodes at once, with a bit for each resource",
        "tests/unit/plugins/test_node_resources_plugins.py",
    ),
    Row(
        names.NODE_RESOURCES_FIT,
        "no scoring of resource claims",
        "resource claims are not allocated yet",
        "tests/unit/config/test_profiles.py",
    ),
    Row(
        names.NODE_RESOURCES_FIT,
        "the pod-level requests of the new pod count in its score",
        "kube-scheduler forgets them there, and fills nodes more than the strategy says",
        "tests/unit/plugins/test_node_resources_plugins.py",
        since="1.34",
        key="pod-level-requests-are-scored",
    ),
    Row(
        names.NODE_VOLUME_LIMITS,
        "counts the volumes of pods, not attachments that outlive them",
        "VolumeAttachments are not watched",
        "tests/unit/plugins/volumes/test_volume_plugins.py",
    ),
    Row(
        names.NODE_VOLUME_LIMITS,
        "inline volumes of old in-tree drivers are not counted",
        "these drivers are gone from Kubernetes",
        "tests/unit/plugins/volumes/test_volume_plugins.py",
    ),
    Row(
        names.VOLUME_BINDING,
        "an existing volume is reserved and the pod bound without waiting for the volume controller",
        "the reservation carries the version of the volume, and the kubelet waits for the rest",
        "tests/unit/plugins/volumes/test_volume_binding.py",
    ),
    Row(
        names.VOLUME_BINDING,
        "for a volume to be provisioned the pod waits, nominated to its node, until the claim is bound; "
        "`bindTimeoutSeconds` has no effect, as nothing blocks",
        "a provisioner may take minutes, or fail",
        "tests/unit/plugins/volumes/test_volume_binding.py",
    ),
    Row(
        names.VOLUME_BINDING,
        "of several pools with room, the one that can make the largest volume is scored",
        "kube-scheduler takes any of them, in no order",
        "tests/unit/plugins/volumes/test_volume_binding.py",
        key="the-largest-pool-is-scored",
    ),
    Row(
        names.VOLUME_BINDING,
        "nodes are scored by how full volumes and pools would be",
        "since 1.37 this needs no feature gate",
        "tests/unit/plugins/volumes/test_volume_binding.py",
        since="up to 1.36",
        key="storage-is-scored",
    ),
    Row(
        names.DEFAULT_PREEMPTION,
        "all nodes are candidates",
        "the cheapest victims may be on any node",
        "tests/property/test_victims_oracle.py",
    ),
    Row(
        names.DEFAULT_PREEMPTION,
        "pods under elastic quotas are left to CapacityScheduling where that is enabled",
        "the rules of quotas say who may evict whom",
        "tests/unit/plugins/test_queue_plugins.py",
    ),
    Row(
        names.DEFAULT_PREEMPTION,
        "pods that are ending count as gone, unless others make room sooner",
        "kube-scheduler evicts further pods for room that comes free anyway",
        "tests/scenarios/beside/room-now-rather-than-after-the-grace-period.yaml",
        key="pods-that-end-make-room",
    ),
    Row(
        names.DEFAULT_PREEMPTION,
        "a less important pod starts beside a nominated one where there is room for both once the victims "
        "have ended",
        "kube-scheduler counts victims and nominated pods at the same time, and evicts further pods",
        "tests/unit/framework/nominations/test_nominated.py",
        key="pods-start-beside-nominated-ones",
    ),
    Row(
        names.DEFAULT_PREEMPTION,
        "the reasons of a node are those of the pods on it, without those that are nominated to it",
        "who waits learns what is there; kube-scheduler counts the others as if they were on the node",
        "tests/unit/framework/nominations/test_nominated.py",
        key="reasons-are-of-pods-that-are-there",
    ),
    Row(
        names.DEFAULT_PREEMPTION,
        "less important pods that the required affinity of the new pod selects may stay while others go",
        "kube-scheduler first takes all of them away, finds no neighbour then, and evicts nobody",
        "tests/unit/framework/preemption/test_search.py",
        key="neighbours-stay",
    ),
    Row(
        names.DEFAULT_PREEMPTION,
        "says in one sentence why nobody is evicted, without a count of nodes",
        "the reasons before it have the counts",
        "tests/scenarios/beside/a-pool-that-is-too-small.yaml",
    ),
    Row(
        names.IMAGE_LOCALITY,
        "an image has the size that the node itself reports",
        "nodes may store it in different forms",
        "tests/unit/plugins/test_image_locality.py",
    ),
    Row(
        names.IMAGE_LOCALITY,
        "image volumes are not counted",
        "they are rare, and small beside images",
        "tests/unit/plugins/test_image_locality.py",
        since="1.33",
    ),
    Row(
        names.VOLUME_BINDING,
        "a claim that names a volume of another claim starts no pod",
        "who may write claims writes any name; Kubernetes takes such a claim for bound until its controller "
        "calls it lost",
        "tests/unit/plugins/volumes/test_volumes_of_others.py",
    ),
    Row(
        names.NODE_VOLUME_LIMITS,
        "a volume of another claim than the one that names it counts as attached for none of its pods",
        "a tenant could fill what a driver attaches to a node",
        "tests/unit/plugins/volumes/test_volumes_of_others.py",
    ),
    Row(
        QUANTITIES,
        "texts without digits and outer white space are refused",
        "`m` is no amount; Kubernetes reads it as 0",
        "tests/unit/model/test_quantity.py",
        key="quantities-have-digits",
    ),
    Row(
        QUANTITIES,
        "an amount beyond 64 bits is the largest one",
        "Kubernetes makes another number of it, even 0",
        "tests/unit/model/test_quantity.py",
        key="quantities-are-bounded",
    ),
    Row(
        QUANTITIES,
        "negative amounts are exact",
        "Kubernetes rounds them otherwise, and some wrongly; no request is negative",
        "tests/unit/model/test_quantity.py",
        key="negative-quantities-are-exact",
    ),
    Row(
        CONFIGURATIONS,
        "NodeUnschedulable filters before NodeName, as up to 1.36",
        "a pod that names its node comes to no scheduler, so no decision depends on it",
        "tests/scenarios/test_profiles.py",
        since="1.37",
        key="two-filters-in-another-order",
    ),
    Row(
        CONFIGURATIONS,
        "`shape` of VolumeBinding is valid",
        "since 1.37 it needs no feature gate",
        "tests/unit/config/args/test_args.py",
        since="up to 1.36",
        key="storage-has-a-shape",
    ),
    Row(
        CONFIGURATIONS,
        "NodeName, NodeUnschedulable and TaintToleration may stand at `preFilter`, DefaultPreemption at "
        "`preEnqueue`",
        "since 1.37 they have these points",
        "tests/unit/config/test_profiles.py",
        since="up to 1.36",
        key="plugins-have-their-newest-points",
    ),
    Row(
        REQUESTS,
        "while containers are resized, ResourceQuotas of the sandbox count the largest of three sums: asked "
        "for, allocated, actuated",
        "the sandbox is of 1.37; all programs follow the version of their server",
        "tests/unit/model/pods/test_requests.py",
        since="up to 1.36",
        key="resizes-count-the-largest-sum",
    ),
    Row(
        REQUESTS,
        "what a kubelet reports of a whole pod (`status.allocatedResources`, `status.resources`) has its "
        "overhead in it, which counts once",
        "kube-scheduler adds the overhead a second time: to pods with pod-level requests, and since 1.37 to "
        "all pods",
        "tests/unit/model/pods/test_requests.py",
        since="1.36",
        key="overhead-counts-once",
    ),
    Row(
        RESOURCE_QUOTAS,
        "a pod counts until it is gone, also when its grace period is over",
        "its node may be cut off and run it still; Kubernetes counts it as ended",
        "tests/unit/sandbox/admission/test_quota_evaluators.py",
        key="overdue-pods-count",
    ),
    Row(
        RESOURCE_QUOTAS,
        "refusals write amounts in one form: `5G` is `5000000000`",
        "amounts are whole numbers here; Kubernetes keeps the form in which they were written",
        "tests/unit/sandbox/admission/test_quota_evaluators.py",
        key="amounts-have-one-form",
    ),
    Row(
        CLAIMS,
        "takes first what fits into the loans, though it may matter more; in Kueue whoever matters least "
        "goes, also where its queue falls below its quota",
        "a guarantee counts for more than a priority",
        "tests/property/test_victims_oracle.py",
        key="loans-are-taken-first",
    ),
    Row(
        FAIR_CLAIMS,
        "whoever gives keeps its `min`, gives something that is lacking, and borrows at least as much as who "
        "takes in each resource that is lacking; in Kueue the largest share alone decides",
        "a guarantee of one resource is not paid with another one",
        "tests/unit/quota/test_fair_moves.py",
        key="fair-moves-look-at-each-resource",
    ),
    Row(
        FAIR_CLAIMS,
        "where work asks for several resources, a set is not found that gives so much of one that its quota "
        "then borrows most of another",
        "bounds on single resources find victims among thousands of nodes at once",
        "tests/unit/quota/test_fair_moves.py",
        key="fair-moves-keep-bounds",
    ),
    Row(
        FAIR_CLAIMS,
        "tries other sets of victims where the first one is not fair",
        "Kueue takes one after another, and gives up where they do not do",
        "tests/property/test_fair_worlds.py",
        key="fair-moves-try-other-sets",
    ),
    Row(
        FAIR_CLAIMS,
        "of the sets that may go, takes the one that matters least; Kueue takes first from the queue that "
        "borrows most",
        "an eviction costs the work that is lost",
        "tests/property/test_fair_worlds.py",
        key="fair-moves-take-what-matters-least",
    ),
    Row(
        KUBECONFIGS,
        "nobody is asked for a user name where a file has no credentials: the request is anonymous",
        "programs run without a terminal",
        "tests/unit/kube/auth/test_kubeconfig.py",
        key="nobody-is-asked",
    ),
)


def differs(plugin: str) -> str:
    """What the page says in a plugin's row."""
    if plugin in OWN:
        return OWN[plugin]
    return "; ".join(row.what for row in ROWS if row.of == plugin) or "none"


def table() -> str:
    """All rows as a table of Markdown."""
    lines = ["| Of | What Muster does | Why | Since Kubernetes |", "| --- | --- | --- | --- |"]
    lines += [f"| {row.of} | {row.what} | {row.why} | {row.since} |" for row in ROWS]
    return "\n".join(lines)


def written(page: str) -> str:
    """The page with the column of differences and their table as they are now."""
    lines = [_with_column(line) for line in page.splitlines()]
    text = "\n".join(lines) + "\n"
    section = re.compile(rf"({re.escape(HEADING)}\n.*?\n\n)\|.*?\n(?=\n)", re.DOTALL)
    return section.sub(lambda found: f"{found[1]}{table()}\n", text, count=1)


def _with_column(line: str) -> str:
    cells = line.strip().strip("|").split(" | ")
    plugin = cells[0].strip()
    if not line.startswith("| ") or plugin not in KNOWN_PLUGINS or len(cells) != 6:
        return line
    return " | ".join([*line.rstrip().removesuffix("|").rstrip().split(" | ")[:5], differs(plugin)]) + " |"


def main(arguments: Iterable[str]) -> int:
    """Write the page anew with `--write`; else 1 if it is another one than the table makes."""
    page = PAGE.read_text("utf-8")
    new = written(page)
    if "--write" in arguments:
        PAGE.write_text(new, "utf-8")
        return 0
    return int(new != page)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
