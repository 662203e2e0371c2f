"""Command line flags, with and without a configuration file."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler_core.config import ConfigErrors, SchedulerConfiguration, load_config, plugin_args
from scheduler_core.config.args.kubernetes import InterPodAffinityArgs, NodeResourcesFitArgs
from scheduler_core.config.flags import Flags, apply_flags, ignored_flags
from scheduler_core.config.load import muster_config

FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: of-the-file}
leaderElection: {leaseDuration: 1h}
profiles:
- schedulerName: one
- schedulerName: two
"""
EVERYTHING = Flags(
    leader_elect=False,
    leader_elect_lease_duration=7200.0,
    leader_elect_resource_namespace="default",
    kubeconfig="of-the-flag",
    kube_api_qps=1.0,
    kube_api_burst=2,
    profiling=False,
    contention_profiling=False,
    scheduler_name="flag",
    hard_pod_affinity_symmetric_weight=9,
    algorithm_provider="ClusterAutoscalerProvider",
)


def args_of(config: SchedulerConfiguration, name: str) -> Any:
    return plugin_args(config.profiles[0], name)


def test_beside_a_file_only_leader_election_flags_count() -> None:
    from_file = load_config(FILE)
    config = apply_flags(EVERYTHING, from_file)
    assert not config.leader_election.leader_elect
    assert config.leader_election.lease_duration == 7200.0
    assert config.leader_election.resource_namespace == "default"
    assert config.leader_election.resource_name == "kube-scheduler"
    assert config.leader_election.renew_deadline == 10.0
    assert config.client_connection == from_file.client_connection
    assert config.profiles == from_file.profiles
    assert config.enable_profiling


def test_a_file_keeps_what_no_flag_says() -> None:
    config = apply_flags(Flags(leader_elect_retry_period=1.0), load_config(FILE))
    assert config.leader_election.lease_duration == 3600.0
    assert config.leader_election.retry_period == 1.0


def test_without_a_file_the_deprecated_flags_act_on_the_default_profile() -> None:
    config = apply_flags(EVERYTHING)
    assert [profile.scheduler_name for profile in config.profiles] == ["flag"]
    assert args_of(config, "InterPodAffinity") == InterPodAffinityArgs(hard_pod_affinity_weight=9)
    fit = args_of(config, "NodeResourcesFit")
    assert isinstance(fit, NodeResourcesFitArgs)
    assert fit.strategy.type == "MostAllocated"
    assert [(resource.name, resource.weight) for resource in fit.strategy.resources] == [
        ("cpu", 1),
        ("memory", 1),
    ]
    assert config.client_connection.kubeconfig == "of-the-flag"
    assert (config.client_connection.qps, config.client_connection.burst) == (1.0, 2)
    assert not config.enable_profiling
    assert not config.leader_election.leader_elect


def test_no_flag_at_all_is_the_default_configuration() -> None:
    config = apply_flags(Flags())
    assert [profile.scheduler_name for profile in config.profiles] == ["default-scheduler"]
    assert args_of(config, "InterPodAffinity") == InterPodAffinityArgs(hard_pod_affinity_weight=1)


def test_flags_can_act_on_another_base() -> None:
    config = apply_flags(Flags(hard_pod_affinity_symmetric_weight=0), base=muster_config())
    assert config.profiles[0].scheduler_name == "muster-scheduler"
    assert args_of(config, "InterPodAffinity") == InterPodAffinityArgs(hard_pod_affinity_weight=0)


def test_the_name_of_the_default_scheduler_can_be_taken_without_a_file() -> None:
    config = apply_flags(Flags(scheduler_name="default-scheduler"), base=muster_config())
    assert [profile.scheduler_name for profile in config.profiles] == ["default-scheduler"]


REFUSED: dict[str, tuple[Flags, str]] = {
    "an empty name": (Flags(scheduler_name=""), "--scheduler-name"),
    "a weight out of range": (
        Flags(hard_pod_affinity_symmetric_weight=101),
        "--hard-pod-affinity-symmetric-weight",
    ),
    "an unknown provider": (Flags(algorithm_provider="x"), "--algorithm-provider"),
    "a deadline beyond the lease": (Flags(leader_elect_renew_deadline=20.0), "leaderElection.leaseDuration"),
    "another lock": (Flags(leader_elect_resource_lock="endpoints"), "leaderElection.resourceLock"),
    "a negative burst": (Flags(kube_api_burst=-1), "clientConnection.burst"),
}


@pytest.mark.parametrize(("flags", "path"), REFUSED.values(), ids=REFUSED.keys())
def test_flags_obey_the_rules_of_the_configuration(flags: Flags, path: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        apply_flags(flags)
    assert [error.path for error in caught.value.errors] == [path]


def test_the_ignored_flags_have_names() -> None:
    given = Flags(leader_elect=True, scheduler_name="x", kube_api_qps=3.0)
    assert ignored_flags(given) == ["--kube-api-qps", "--scheduler-name"]


NAMES = [
    ("one", "sakkara", ["sakkara"]),
    ("several", "sakkara,koord-scheduler", ["sakkara", "koord-scheduler"]),
    (
        "with blanks and nothing between commas",
        " sakkara ,, koord-scheduler,",
        ["sakkara", "koord-scheduler"],
    ),
    ("none", "", []),
]


@pytest.mark.parametrize(("said", "names"), [n[1:] for n in NAMES], ids=[n[0] for n in NAMES])
def test_other_names_repeat_the_first_profile(said: str, names: list[str]) -> None:
    for config in (apply_flags(Flags(), base=muster_config()), apply_flags(Flags(), load_config(FILE))):
        file = config if len(config.profiles) > 1 else None
        found = apply_flags(Flags(also_known_as=said), file, muster_config()).profiles
        added = found[len(config.profiles) :]
        assert [profile.scheduler_name for profile in added] == names
        first = config.profiles[0]
        assert all(replace(profile, scheduler_name=first.scheduler_name) == first for profile in added)


@pytest.mark.parametrize("said", ["two", "new,new"])
def test_a_name_of_another_profile_is_refused(said: str) -> None:
    with pytest.raises(ConfigErrors, match=r"--also-known-as: .*there is a profile of this name"):
        apply_flags(Flags(also_known_as=said), load_config(FILE))


@pytest.mark.parametrize("said", ["-a", "a.", "a b", "a\nb", "\u00e4", "\x00", "fine,b/c/d", "a" * 64])
def test_a_name_that_events_cannot_carry_is_refused(said: str) -> None:
    with pytest.raises(ConfigErrors, match=r"--also-known-as: Invalid value: .* part must"):
        apply_flags(Flags(also_known_as=said))


def test_other_names_follow_the_flag_that_names_the_first() -> None:
    found = apply_flags(Flags(scheduler_name="first", also_known_as="second")).profiles
    assert [profile.scheduler_name for profile in found] == ["first", "second"]


def test_other_names_count_beside_a_file() -> None:
    assert ignored_flags(Flags(also_known_as="a", kubeconfig="k")) == ["--kubeconfig"]
