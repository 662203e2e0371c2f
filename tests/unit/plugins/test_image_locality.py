"""ImageLocality."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler_core.framework.view import NodeView
from scheduler_core.plugins.image_locality import ImageLocality, full_name
from scheduler_core.state.cluster import ClusterState
from tests.support.asking import cluster, cycle_for, put, score
from tests.support.builders import NodeBuilder, make_node, make_pod

MB = 1024 * 1024


def node(name: str, **megabytes: int) -> NodeBuilder:
    made = make_node(name).allocatable(cpu="4")
    images = [{"names": [f"{image}:latest"], "sizeBytes": size * MB} for image, size in megabytes.items()]
    made.raw["status"]["images"] = images
    return made


def pulls(*images: str) -> list[dict[str, str]]:
    return [{"name": f"c{i}", "image": image} for i, image in enumerate(images)]


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("app", "app:latest"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("registry:5000/app:v2", "registry:5000/app:v2"),
        ("app@sha256:abc", "app@sha256:abc"),
    ],
)
def test_an_image_without_tag_is_latest(image: str, full: str) -> None:
    assert full_name(image) == full


@pytest.mark.parametrize(
    ("size", "points"),
    [
        pytest.param(23, 0, id="at the lower threshold"),
        pytest.param(22, 0, id="below it"),
        pytest.param(1000, 100, id="at the upper threshold"),
        pytest.param(5000, 100, id="above it"),
        pytest.param(512, 50, id="between"),
    ],
)
def test_points_between_the_thresholds(size: int, points: int) -> None:
    state = cluster(node("a", app=size).obj())
    assert score(ImageLocality(), state, make_pod("x/p").containers(*pulls("app")).obj()) == {"a": points}


def test_an_image_counts_by_the_share_of_nodes_that_have_it() -> None:
    state = cluster(node("a", app=1000).obj(), node("b").obj(), node("c").obj(), node("d", app=1000).obj())
    pod = make_pod("x/p").containers(*pulls("app")).obj()
    # Half of 1000 MB: 100 * (500 - 23) / 977.
    assert score(ImageLocality(), state, pod) == {"a": 48, "b": 0, "c": 0, "d": 48}


def test_containers_add_up_and_raise_the_threshold() -> None:
    state = cluster(node("a", app=1000, side=1000).obj())
    pod = make_pod("x/p").containers(*pulls("app", "side", "other")).obj()
    assert score(ImageLocality(), state, pod) == {"a": 66}


def test_another_node_changes_the_score_of_those_that_did_not_change() -> None:
    """The raw score may be old; the normalised one is not."""
    state: ClusterState = cluster(node("a", app=1000).obj())
    pod = make_pod("x/p").containers(*pulls("app")).obj()
    plugin, cycle = ImageLocality(), cycle_for(state, pod)
    raw = plugin.score(cycle, NodeView.all(state.nodes))
    assert raw.tolist() == [100]
    put(state, node("b").obj())
    everyone = np.ones(2, dtype=np.bool_)
    assert plugin.normalize(cycle, raw, everyone).tolist() == [48, 0]
    put(state, node("b", app=1000).obj())
    assert plugin.normalize(cycle, raw, everyone).tolist() == [100, 100]
    state.remove_node("b")
    assert plugin.normalize(cycle, raw, everyone)[0] == 100
