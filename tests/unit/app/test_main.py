"""The scheduler's own command line, up to the moment when it would reach for a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler_core.app.__main__ import main

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.mark.parametrize(("given", "level"), [(["-v=6"], 6), (["-v", "6"], 6), (["--v=6"], 6), ([], 1)])
def test_a_file_and_a_log_level_are_given_as_to_other_schedulers(given: list[str], level: int) -> None:
    asked = main.make_context("muster-scheduler", ["--config", "/etc/own/config.yaml", *given]).params
    assert (asked["config_file"], asked["verbosity"]) == ("/etc/own/config.yaml", level)


def test_a_malformed_profile_ends_the_start_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The log of this process is that of all tests.
    monkeypatch.setattr("scheduler_core.app.__main__.set_up", lambda *given: None)
    path = tmp_path / "config.yaml"
    path.write_text(HEAD + "profiles: [{schedulerName: a, plugins: {score: {enabled: [{name: Nope}]}}}]\n")
    done = CliRunner().invoke(main, ["--config", str(path)])
    assert (done.exit_code, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{path}: profiles[0].plugins.score: ")
    assert '"Nope"' in line
