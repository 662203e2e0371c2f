"""Replays of small traces with waits known by hand, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sandbox.cli import main
from sandbox.replay.figures import Timeline, summary, waits_of
from sandbox.replay.generator import generate
from sandbox.replay.models import RULES, PeerRule, QuotaModel
from sandbox.replay.policies import POLICIES, proportional, quota_of
from sandbox.replay.trace import TraceError, TraceJob, read_trace, trace_text
from sandbox.replay.virtual_cluster import ClusterShape, ReplayOutcome, VirtualCluster

ROOT = Path(__file__).parents[4]
HOUR = 3600.0
ONE_NODE = ClusterShape(1, 8)


def job(submit: float, hours: float, gpus: int, quota: str) -> TraceJob:
    return TraceJob(submit * HOUR, hours * HOUR, gpus, quota)


def replayed(
    policy: str, jobs: list[TraceJob], shape: ClusterShape = ONE_NODE, **options: float
) -> ReplayOutcome:
    quotas = [quota_of("a", 4, 8), quota_of("b", 4, 8)]
    return VirtualCluster(shape, quotas, POLICIES[policy], **options).run(jobs)


def waits(outcome: ReplayOutcome) -> list[float]:
    return [round(record.waited / HOUR, 3) for record in outcome.records]


@pytest.mark.smoke
def test_with_fixed_quotas_a_job_waits_beside_idle_gpus_and_with_lending_it_does_not() -> None:
    jobs = [job(0, 10, 4, "a"), job(1, 10, 4, "a")]
    fixed, lent = replayed("fixed", jobs), replayed("lend", jobs)
    assert waits(fixed) == [0.0, 9.0]
    assert waits(lent) == [0.0, 0.0]
    assert fixed.timeline.mean_used() == pytest.approx(4.0)


def test_who_takes_back_its_min_undoes_the_work_since_the_last_checkpoint() -> None:
    jobs = [job(0, 10, 8, "a"), job(1.2, 1, 4, "b")]
    lent = replayed("lend", jobs, checkpoint=1800.0)
    first, second = lent.records
    assert (second.waited, second.evictions) == (0.0, 0)
    # Evicted at 1.2 h; 1 h is saved. It waits for an hour, until b has ended, and runs for 9 h more.
    assert (first.evictions, round(first.waited / HOUR, 3)) == (1, 1.0)
    assert first.lost == pytest.approx(0.2 * HOUR * 8)
    assert first.ended == pytest.approx((1.2 + 1 + 9) * HOUR)
    never_saved = replayed("lend", jobs, checkpoint=0.0).records[0]
    assert never_saved.lost == pytest.approx(1.2 * HOUR * 8)


def test_a_borrower_shares_fairly_only_where_the_policy_says_so() -> None:
    quotas = [quota_of("a", 0, 8), quota_of("b", 0, 8), quota_of("idle", 8, 8)]
    jobs = [job(0, 10, 2, "a") for _ in range(4)] + [job(1, 1, 4, "b")]
    found = {
        name: VirtualCluster(ONE_NODE, quotas, POLICIES[name]).run(jobs).records for name in ("lend", "fair")
    }
    assert found["lend"][4].waited == 9 * HOUR
    assert found["fair"][4].waited == 0.0
    assert sum(record.evictions for record in found["fair"]) == 2


def test_calm_leaves_young_work_in_place() -> None:
    quotas = [quota_of("a", 0, 8), quota_of("b", 0, 8), quota_of("idle", 8, 8)]
    jobs = [job(0, 10, 4, "a"), job(0, 10, 4, "a"), job(0.1, 1, 4, "b")]
    found = {
        name: VirtualCluster(ONE_NODE, quotas, POLICIES[name]).run(jobs).records[2].waited
        for name in ("fair", "fair+calm")
    }
    # Ten minutes after the start, which are four minutes after it came.
    assert found == {"fair": 0.0, "fair+calm": pytest.approx(240.0)}


def test_a_gang_larger_than_the_cluster_or_its_max_never_starts() -> None:
    outcome = replayed("lend", [job(0, 1, 9, "a"), job(0, 1, 8, "a")])
    assert summary(outcome.records).never == 1
    assert replayed("fixed", [job(0, 1, 8, "a")]).records[0].ended is None


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_model_keeps_the_capacity_and_ends_all_jobs(rule: PeerRule) -> None:
    jobs = generate(3, 600, days=1, quotas=4, load=40)
    outcome = QuotaModel(proportional(jobs, 48), 48, rule).run(jobs)
    assert max(outcome.timeline.used) <= 48 + 1e-6
    assert summary(outcome.records).never == sum(job.gpus > 48 for job in jobs)


def test_models_differ_where_their_rules_do() -> None:
    quotas = [quota_of("a", 0, 8), quota_of("b", 0, 8), quota_of("idle", 8, 8)]
    jobs = [job(0, 10, 2, "a") for _ in range(4)] + [job(1, 1, 4, "b")]
    waited = {rule.name: QuotaModel(quotas, 8, rule).run(jobs).records[4].waited / HOUR for rule in RULES}
    assert waited == {
        "Muster, first come": 9.0,
        "Muster, fair": 0.0,
        "Kueue": 0.0,
        "KAI": 9.0,
        "Koordinator": 9.0,
        "YuniKorn": 9.0,
        "Volcano": 0.0,
    }


def test_a_generated_trace_is_the_same_for_a_seed_and_has_the_load_that_is_asked_for() -> None:
    jobs = generate(7, 3000)
    assert jobs == generate(7, 3000)
    assert jobs != generate(8, 3000)
    assert len(jobs) == 3000
    assert sum(item.gpu_seconds for item in jobs) / (15 * 86400) == pytest.approx(295, rel=0.02)
    assert max(item.duration for item in jobs) <= 3 * 86400
    assert {item.gpus for item in jobs} <= {1, 2, 4, 8, 16, 32, 64, 128}
    by_quota = [sum(item.quota == f"vc{number:02}" for item in jobs) for number in range(1, 16)]
    assert by_quota == sorted(by_quota, reverse=True)
    assert read_trace(trace_text(jobs), "t.csv").jobs == jobs


PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-03 05:30:00,3600,8,28800,0e4a51\n"


@pytest.mark.smoke
def test_phillys_csv_is_read_by_the_names_of_its_columns() -> None:
    found = read_trace(PHILLY + "2017-10-03 06:30:00,60,1,60,ee9e8c\n", "philly.csv")
    assert [(item.submit, item.duration, item.gpus, item.quota) for item in found.jobs] == [
        (0.0, 3600.0, 8, "0e4a51"),
        (3600.0, 60.0, 1, "ee9e8c"),
    ]


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("0,-1,1,a", "line 3: duration='-1' must be from 0 to"),
        ("0,x,1,a", "line 3: duration='x' must be a number of seconds"),
        ("0,1,0,a", "line 3: gpus='0' must be a whole number from 1"),
        ("0,1,1.5,a", "line 3: gpus='1.5' must be a whole number"),
        ("soon,1,1,a", "line 3: submit='soon' must be a number of seconds"),
        ("2026-13-01,1,1,a", "line 3: submit='2026-13-01' must be a date and time"),
        ("0,1,1,--", "line 3: quota='--' must have a letter or digit"),
        ("0,1", "line 3: gpus='' is missing"),
    ],
)
def test_a_broken_row_is_named_and_left_out(row: str, told: str) -> None:
    found = read_trace(f"submit,duration,gpus,quota\n5,1,1,a\n{row}\n", "t.csv")
    assert len(found.jobs) == 1
    assert [str(item)[: len(told)] for item in found.broken] == [told]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("submit,duration,gpus\n1,1,1\n", "t.csv: has no column quota or cluster; its columns are submit"),
        ("", "t.csv: has no column submit or timestamp"),
        ("submit,duration,gpus,quota\n0,-1,1,a\n", "t.csv: "),
    ],
)
def test_a_trace_without_a_column_or_a_valid_row_is_an_error(text: str, told: str) -> None:
    with pytest.raises(TraceError) as error:
        read_trace(text, "t.csv")
    assert str(error.value).startswith(told)


def test_percentiles_are_those_of_the_nearest_rank() -> None:
    found = waits_of(HOUR * value for value in range(1, 101))
    assert (found.mean, found.p50, found.p90, found.p99) == (50.5, 50.0, 90.0, 99.0)


def test_a_timeline_spreads_what_held_over_its_spans() -> None:
    line = Timeline(10.0, 5)
    line.add(1.0, 5.0, 4, 2)
    line.add(5.0, 20.0, 0, 1)
    assert line.used == pytest.approx([2, 4, 2, 0, 0])
    assert line.waiting == pytest.approx([1, 2, 1.5, 1, 1])


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["replay", *arguments])
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.smoke
def test_the_command_compares_policies(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("submit,duration,gpus,quota\n0,36000,4,a\n3600,36000,4,a\nx,1,1,a\n0,60,8,b\n")
    picture = tmp_path / "t.svg"
    small = ("--nodes", "1", "--policy", "fixed,lend")
    told = run(str(trace), *small, "--svg", str(picture), "--per-quota")
    assert "1 of 4 rows are broken and left out:\n  line 4: submit='x' must be" in told
    lines = [line.split() for line in told.splitlines()[2:]]
    assert lines[0][:4] == ["POLICY", "QUOTA", "JOBS", "WAIT"]
    assert [line[:3] for line in lines[1:]] == [
        *(["fixed", "-", "3"], ["fixed", "a", "2"], ["fixed", "b", "1"]),
        *(["lend", "-", "3"], ["lend", "a", "2"], ["lend", "b", "1"]),
    ]
    drawn = picture.read_text()
    assert drawn.startswith("<svg ")
    assert drawn.count("<polyline") == 4
    found = json.loads(CliRunner().invoke(main, ["replay", str(trace), *small, "-o", "json"]).stdout)
    assert [item["policy"] for item in found["policies"]] == ["fixed", "lend"]
    assert set(found["policies"][0]["quotas"]) == {"a", "b"}


def test_quotas_of_a_file_are_those_that_count(tmp_path: Path) -> None:
    trace, quotas = tmp_path / "t.csv", tmp_path / "q.yaml"
    trace.write_text("submit,duration,gpus,quota\n0,3600,4,a\n0,3600,4,a\n")
    least = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota"}
    least |= {"metadata": {"name": "q", "namespace": "a"}, "spec": {"min": {"nvidia.com/gpu": 4}}}
    quotas.write_text(json.dumps(least))
    told = run(str(trace), "--nodes", "1", "--quotas", str(quotas), "--policy", "fixed", "-o", "json")
    assert json.loads(told)["policies"][0]["waitHours"]["mean"] == 0.5
    quotas.write_text(json.dumps(least | {"metadata": {"name": "q", "namespace": "b"}}))
    assert "has no quota for a, which the trace names" in run(
        str(trace), "--nodes", "1", "--quotas", str(quotas), code=1
    )
    quotas.write_text(json.dumps(least | {"spec": {"min": {"nvidia.com/gpu": 9}}}))
    assert "the min of nvidia.com/gpu sum to 9, more than the 8 GPUs" in run(
        str(trace), "--nodes", "1", "--quotas", str(quotas), code=1
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Give a TRACE, or --generate SEED."),
        (
            ("--generate", "1", "--policy", "lend,best"),
            "--policy: best; choose of fixed, lend, fair, fair+calm",
        ),
        (("--generate", "1", "--checkpoint", "soon"), "--checkpoint soon: must be a duration"),
    ],
)
def test_wrong_arguments_are_told(arguments: tuple[str, ...], told: str) -> None:
    assert told in run(*arguments, code=2)


def test_a_made_trace_can_be_saved(tmp_path: Path) -> None:
    file = tmp_path / "made.csv"
    assert run("--generate", "5", "--jobs", "50", "--save", str(file)) == ""
    assert read_trace(file.read_text(), "made.csv").jobs == generate(5, 50)


def test_the_commands_of_the_document_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("jobs.csv").write_text(trace_text(generate(2, 60, quotas=2)))
    quotas = [
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": "quota", "namespace": name},
            "spec": {"min": {"nvidia.com/gpu": 100}},
        }
        for name in ("vc01", "vc02")
    ]
    Path("quotas.yaml").write_text("\n---\n".join(map(json.dumps, quotas)))
    page = (ROOT / "docs" / "replay.md").read_text()
    lines = [
        line.partition("#")[0].split() for line in page.splitlines() if line.startswith("muster-sandbox")
    ]
    assert len(lines) == 3
    for _, command, *arguments in lines:
        done = CliRunner().invoke(main, [command, *arguments])
        assert (done.exit_code, done.stdout.startswith("POLICY")) == (0, True), done.output
    assert Path("replay.svg").exists()


@pytest.mark.parametrize("seed", [3, 7], ids="jobs of seed {}".format)
def test_to_leave_out_hopeless_attempts_changes_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = generate(seed, 500, days=1, quotas=4, load=42)
    shape = ClusterShape(6, 8)
    quotas = proportional(jobs, shape.gpus)
    found = [VirtualCluster(shape, quotas, POLICIES["lend"]).run(jobs).records]
    monkeypatch.setattr("scheduler_core.engine.events.has_no_chance", lambda state, unit: False)
    monkeypatch.setattr(
        "scheduler_core.engine.gang.preemption.reclaims_in_vain", lambda state, pod, need: False
    )
    found.append(VirtualCluster(shape, quotas, POLICIES["lend"]).run(jobs).records)
    assert found[0] == found[1]
