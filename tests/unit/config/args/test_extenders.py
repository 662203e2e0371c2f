"""Resources that extenders manage are ignored by NodeResourcesFit."""

from __future__ import annotations

import pytest

from scheduler_core.config import load_config, plugin_args
from scheduler_core.config.args.extenders import without_managed
from scheduler_core.config.args.kubernetes import NodeResourcesFitArgs
from scheduler_core.config.schema import SchedulerConfiguration

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
EXTENDERS = """
extenders:
- urlPrefix: "http://x"
  managedResources: [{name: example.com/b, ignoredByScheduler: true}, {name: example.com/c}]
- {urlPrefix: "http://y", managedResources: [{name: example.com/a, ignoredByScheduler: true}]}
"""
FIT = "[{name: NodeResourcesFit, args: {ignoredResources: [example.com/z, example.com/a]}}]"


def ignored(config: SchedulerConfiguration) -> list[tuple[str, ...]]:
    found = [plugin_args(profile, "NodeResourcesFit") for profile in config.profiles]
    return [args.ignored_resources if isinstance(args, NodeResourcesFitArgs) else () for args in found]


@pytest.mark.parametrize(
    ("extenders", "names"),
    [
        ("", [("example.com/z", "example.com/a"), ()]),
        ("extenders: [{urlPrefix: 'http://x', managedResources: [{name: example.com/b}]}]", None),
        (
            EXTENDERS,
            [("example.com/z", "example.com/a", "example.com/b"), ("example.com/a", "example.com/b")],
        ),
    ],
    ids=["no extender", "one that ignores nothing", "some that do"],
)
def test_ignored_resources_join_those_of_every_profile(
    extenders: str, names: list[tuple[str, ...]] | None
) -> None:
    text = f"{HEAD}profiles: [{{schedulerName: a, pluginConfig: {FIT}}}, {{schedulerName: b}}]\n{extenders}"
    config = load_config(text)
    if names is None:
        assert without_managed(config) is config
    else:
        assert ignored(without_managed(config)) == names
