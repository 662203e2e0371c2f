"""`muster-scheduler config`: streams, exit codes, and flags. What the files mean is tested elsewhere."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler_core.app.__main__ import main
from scheduler_core.app.config_cli import config_group

V1 = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
OLD = V1.replace("/v1\n", "/v1alpha1\n")


def run(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(config_group, list(args), input=stdin)


def write(folder: Path, text: str, name: str = "config.yaml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_valid_file_is_named_with_its_profiles(tmp_path: Path) -> None:
    file = write(tmp_path, V1 + "profiles: [{schedulerName: a}, {schedulerName: b}]\n")
    result = run("validate", file)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{file}: valid (kubescheduler.config.k8s.io/v1; profiles: a, b)\n"


def test_every_error_is_a_line_and_the_exit_code_is_1(tmp_path: Path) -> None:
    file = write(tmp_path, V1 + "parallelism: 0\npercentageOfNodesToScore: 200\n")
    result = run("validate", file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        f"{file}: parallelism: Invalid value: 0: should be an integer value greater than zero",
        f"{file}: percentageOfNodesToScore: Invalid value: 200: not in valid range [0-100]",
    ]


@pytest.mark.parametrize("command", ["validate", "view", "convert"])
def test_standard_input_is_a_file(command: str) -> None:
    assert run(command, "-", stdin=V1).exit_code == 0
    broken = run(command, "-", stdin="a: [")
    assert broken.exit_code == 1
    assert broken.stderr.startswith("<stdin>: cannot read YAML or JSON: line 1")


@pytest.mark.parametrize("command", ["validate", "view", "convert"])
def test_wrong_usage_is_exit_code_2(command: str, tmp_path: Path) -> None:
    for args in ([command, str(tmp_path / "missing")], [command, "--nope"], [command, "a", "b"]):
        assert run(*args).exit_code == 2


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\xfe\x00")
    result = run("validate", str(path))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{path}: cannot read: ")
    assert len(result.stderr.splitlines()) == 1


def test_a_file_that_is_missing_is_named_once(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--config", str(tmp_path / "missing")])
    assert result.exit_code == 1
    assert result.stderr == f"{tmp_path}/missing: cannot read: No such file or directory\n"


def test_view_prints_the_same_as_json_and_yaml(tmp_path: Path) -> None:
    file = write(tmp_path, V1)
    as_json, as_yaml = run("view", file, "-o", "json"), run("view", file)
    shown = json.loads(as_json.stdout)
    assert yaml.safe_load(as_yaml.stdout) == shown
    (profile,) = shown["profiles"]
    assert list(profile) == ["schedulerName", "plugins", "pluginConfig"]
    assert profile["plugins"]["bind"] == [{"name": "DefaultBinder"}]
    assert profile["plugins"]["score"][0] == {"name": "TaintToleration", "weight": 3}


def test_view_shows_the_settings_beside_the_profiles(tmp_path: Path) -> None:
    file = write(tmp_path, V1 + "leaderElection: {leaseDuration: 1h}\nparallelism: 8\n")
    shown = json.loads(run("view", file, "-o", "json", "--leader-elect-retry-period=1s").stdout)
    assert shown["leaderElection"] == {
        "leaderElect": True,
        "leaseDuration": "1h0m0s",
        "renewDeadline": "10s",
        "retryPeriod": "1s",
        "resourceLock": "leases",
        "resourceName": "kube-scheduler",
        "resourceNamespace": "kube-system",
    }
    assert (shown["clientConnection"]["qps"], shown["clientConnection"]["burst"]) == (50, 100)
    defaults = ("percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds")
    assert [shown["parallelism"], *(shown[name] for name in defaults)] == [8, 0, 1, 10]


def test_view_without_a_file_shows_the_default_profile_under_the_flags() -> None:
    result = run(
        "view",
        "-o",
        "json",
        "--scheduler-name=mine",
        "--hard-pod-affinity-symmetric-weight=7",
        "--algorithm-provider=ClusterAutoscalerProvider",
    )
    (profile,) = json.loads(result.stdout)["profiles"]
    args = {entry["name"]: entry.get("args") for entry in profile["pluginConfig"]}
    assert profile["schedulerName"] == "mine"
    assert args["InterPodAffinity"]["hardPodAffinityWeight"] == 7
    assert args["NodeResourcesFit"]["scoringStrategy"]["type"] == "MostAllocated"


def test_deprecated_flags_beside_a_file_are_ignored_with_a_warning(tmp_path: Path) -> None:
    file = write(tmp_path, V1)
    result = run("view", file, "-o", "json", "--scheduler-name=mine", "--leader-elect=false")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["profiles"][0]["schedulerName"] == "default-scheduler"
    assert result.stderr == f"{file}: warning: --scheduler-name is ignored, the file decides\n"


FLAGS = [
    (["--leader-elect"], 0),
    (["--leader-elect=false", "--leader-elect-renew-deadline=20s"], 0),
    (["--leader-elect-renew-deadline=20s"], 1),
    (["--leader-elect-lease-duration=15"], 2),
    (["--profiling=maybe"], 2),
    (["--hard-pod-affinity-symmetric-weight=101"], 1),
]


@pytest.mark.parametrize(("flags", "code"), FLAGS)
def test_flags_are_checked(flags: list[str], code: int) -> None:
    result = run("view", *flags)
    assert result.exit_code == code
    assert (result.stderr == "") is (code == 0)


def test_convert_finds_a_policy_beside_the_configuration(tmp_path: Path) -> None:
    write(tmp_path, json.dumps({"priorities": [{"name": "ImageLocalityPriority", "weight": 4}]}), "p.json")
    file = write(tmp_path, OLD + "algorithmSource: {policy: {file: {path: p.json}}}\n")
    document = yaml.safe_load(run("convert", file).stdout)
    assert document["profiles"][0]["plugins"]["score"]["enabled"] == [{"name": "ImageLocality", "weight": 4}]


def test_convert_warns_of_a_result_that_is_not_valid(tmp_path: Path) -> None:
    entry = "pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 5}}]\n"
    file = write(tmp_path, OLD + "hardPodAffinitySymmetricWeight: 3\n" + entry)
    result = run("convert", file, "-o", "json")
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)["profiles"][0]["pluginConfig"]) == 2
    assert (
        result.stderr
        == f'{file}: warning: profiles[0].pluginConfig[1]: Duplicate value: "InterPodAffinity"\n'
    )


MOST = "profiles: [{plugins: {score: {enabled: [{name: NodeResourcesMostAllocated}]}}}]\n"
LEFT_OUT = "profiles: [{plugins: {multiPoint: {enabled: [{name: DynamicResources}]}}}]\n"
CLAIMS = "resource claims are not allocated yet; pods that carry them are refused"
BECOMES = "NodeResourcesMostAllocated becomes NodeResourcesFit with the scoring strategy MostAllocated"
GIVES_WAY = "the default score LeastAllocated gives way to NodeResourcesMostAllocated"
WARNED = [
    (
        V1.replace("/v1\n", "/v1alpha2\n") + MOST,
        [f"profiles[0].plugins.score: {BECOMES}", f"profiles[0].plugins.score: {GIVES_WAY}"],
    ),
    (V1 + LEFT_OUT, [f"profiles[0].plugins.multiPoint: DynamicResources is left out: {CLAIMS}"]),
]


@pytest.mark.parametrize("command", [["validate"], ["view"], ["convert", "--to", "v1"]])
@pytest.mark.parametrize(("text", "said"), WARNED, ids=["old score", "left out"])
def test_a_deviation_from_the_file_is_a_warning(
    command: list[str], text: str, said: list[str], tmp_path: Path
) -> None:
    file = write(tmp_path, text)
    result = run(*command, file)
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [f"{file}: warning: {line}" for line in said]
    assert "Warning" not in result.stdout


def test_a_configuration_that_would_not_run_is_not_written_in_v1(tmp_path: Path) -> None:
    text = (
        OLD.replace("v1alpha1", "v1alpha2")
        + "profiles: [{plugins: {filter: {enabled: [{name: NodeLabel}]}}}]\n"
    )
    result = run("convert", "--to", "v1", write(tmp_path, text))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith(
        "does not exist in Muster: replaced by NodeAffinity with args.addedAffinity\n"
    )


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("extenders: [{urlPrefix: 'ftp://x', filterVerb: f}]\n", "'ftp://x' is not an http or https URL"),
        (
            "profiles: [{pluginConfig: [{name: ClusterTopologyPlacementGroup, args: {solver: none}}]}]\n",
            'Unsupported value: "none"',
        ),
    ],
    ids=["extender", "solver"],
)
@pytest.mark.parametrize("head", [OLD.replace("v1alpha1", "v1alpha2"), V1], ids=["v1alpha2", "v1"])
def test_a_configuration_that_validate_refuses_is_not_written(
    head: str, more: str, problem: str, tmp_path: Path
) -> None:
    file = write(tmp_path, head + more)
    said = run("validate", file)
    converted = run("convert", "--to", "v1", file)
    assert (converted.exit_code, converted.stdout) == (said.exit_code, "") == (1, "")
    assert problem in said.stderr
    assert converted.stderr == said.stderr


def test_converted_output_is_a_configuration_again(tmp_path: Path) -> None:
    file = write(tmp_path, OLD + "leaderElection: {lockObjectName: x}\n")
    for target in ("v1alpha2", "v1"):
        result = run("convert", file, "--to", target)
        assert run("view", "-", stdin=result.stdout).stdout == run("view", file).stdout


TEXTS = [
    "1e3",
    "0o17",
    "09",
    "1_0",
    "0b1",
    "yes",
    "null",
    "~",
    "",
    "1:30",
    "2026-01-01",
    "a: b",
    "é",
    "#x",
    "5",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_that_looks_like_something_else_survives_yaml_output(text: str) -> None:
    entry = {"name": "Elsewhere", "args": {"text": text, text: 1}}
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    document |= {"profiles": [{"pluginConfig": [entry]}]}
    output = run("convert", "-", stdin=json.dumps(document)).stdout
    assert json.loads(run("convert", "-", "-o", "json", stdin=output).stdout) == document


def test_numbers_beyond_64_bits_do_not_stop_the_output() -> None:
    text = V1 + "profiles: [{pluginConfig: [{name: Elsewhere, args: {n: 123456789012345678901234567890}}]}]\n"
    assert run("view", "-", stdin=text).exit_code == 0
    assert "1.2345678901234568e+29" in run("view", "-", "-o", "json", stdin=text).stdout


def test_version_is_told_without_scheduling() -> None:
    done = CliRunner().invoke(main, ["--version"])
    assert (done.exit_code, done.output) == (0, f"muster-scheduler {version('muster')}\n")
