"""Exit codes and messages: one line, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kubectl_plugin.cli.entry import prog_name
from kubectl_plugin.cluster import quota_snapshot
from kubectl_plugin.podgroup import podgroup
from tests.unit.kubectl_plugin.plugin_api import Api, Command, quota_object

PROGRAM = [sys.executable, "-c", "from kubectl_plugin.elasticquota import main; main()"]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["get", "--bad"], "No such option '--bad'"),
        (["nope"], "No such command 'nope'"),
        (["get", "-o", "xml"], "'xml' is not one of table|wide"),
        (["get", "-o", "jsonpath"], "jsonpath needs a template"),
        (["get", ""], "a resource name may not be empty"),
        (["get", "x", "-A"], "a resource cannot be retrieved by name across all namespaces"),
        (["get", "x", "-l", "a=b"], "a name cannot be given together with a selector"),
        (["get", "x", "y", "-w"], "only one name can be watched"),
        (["get", "-w", "--sort-by=.metadata.name"], "--sort-by cannot be used with --watch"),
        (["get", "--request-timeout=soon"], "'soon' is not a time"),
        (["get", "--chunk-size=-1"], "--chunk-size"),
        (["simulate"], "--scenario"),
    ],
)
def test_wrong_usage_is_one_line_with_the_way_to_help_and_code_2(
    eq: Command, argv: list[str], text: str
) -> None:
    done = eq(*argv)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert text in done.err
    assert done.err.count("\n") == 1
    assert "--help' for usage.\n" in done.err


def test_a_missing_kubeconfig_is_named(eq: Command) -> None:
    done = eq("get", "--kubeconfig", "/does/not/exist")
    assert (done.code, done.err) == (1, "error: /does/not/exist: no such file\n")


def test_a_broken_kubeconfig_is_named(eq: Command, tmp_path: Path) -> None:
    path = tmp_path / "broken"
    path.write_text("a: [")
    done = eq("get", "--kubeconfig", str(path))
    assert done.code == 1
    assert done.err.startswith(f"error: {path}: not YAML")
    assert done.err.count("\n") == 1


def test_a_context_that_does_not_exist_is_named_with_those_that_do(eq: Command) -> None:
    done = eq("get", "--context", "prod")
    assert done.code == 1
    assert "context 'prod' does not exist (there are: test)" in done.err


def test_an_unreachable_server_is_said_in_kubectls_words(eq: Command) -> None:
    done = eq("get", "-s", "http://127.0.0.1:1")
    assert done.code == 1
    assert done.err == (
        "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?\n"
    )


def test_broken_code_is_one_line_and_the_traceback_is_for_level_9(
    eq: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("out of cheese")

    monkeypatch.setattr(quota_snapshot, "take_snapshot", broken)
    done = eq("get")
    assert (done.code, done.err) == (
        1,
        "error: internal error, please report it: RuntimeError: out of cheese\n",
    )
    assert "Traceback" in eq("get", "-v=9").err


def test_level_6_prints_each_request_but_never_the_token(api: Api, eq: Command) -> None:
    done = eq("get", "-A", "-v=6", "-o", "json")
    assert f"GET {api.url}/apis/scheduling.x-k8s.io/v1alpha1/elasticquotas?limit=500 200 in" in done.err
    assert "secret" not in done.err
    # Over plain http no credentials are sent at all.
    assert "Authorization" not in api.headers[0]


def test_global_flags_stand_before_or_after_the_command_and_the_later_wins(api: Api, eq: Command) -> None:
    eq("-n", "one", "get", "-o", "name")
    eq("-n", "one", "get", "-n=two", "-o=name")
    assert [path.split("/")[5] for path, _ in api.requests] == ["one", "two"]


def test_impersonation_is_sent_over_plain_http_and_a_token_is_not(api: Api, eq: Command) -> None:
    flags = ["--as=bob", "--as-group=dev", "--as-group=ops", "--as-uid=7", "--token=other"]
    assert eq("get", "-A", "-o", "name", *flags).code == 0
    sent = api.headers[0]
    assert "Authorization" not in sent
    assert (sent["Impersonate-User"], sent["Impersonate-Uid"]) == ("bob", "7")


@pytest.mark.parametrize("flags", [["--as-uid=7"], ["--as-group=x"]])
def test_impersonation_needs_a_user(eq: Command, flags: list[str]) -> None:
    done = eq("get", *flags)
    assert done.code == 1
    assert "needs --as" in done.err


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["get", "a/b"], "invalid resource name 'a/b': [may not contain '/']"),
        (["get", ".."], "invalid resource name '..': [may not be '..']"),
        (["get", "-n", "x%2Fy"], "invalid namespace 'x%2Fy': [may not contain '%']"),
    ],
)
def test_names_that_would_change_the_request_are_refused(
    api: Api, eq: Command, argv: list[str], text: str
) -> None:
    done = eq(*argv)
    assert (done.code, done.err) == (1, f"error: {text}\n")
    assert api.requests == []


def test_without_a_command_the_help_is_shown_as_kubectl_does(eq: Command) -> None:
    done = eq()
    assert (done.code, done.err) == (0, "")
    assert "  lint        Check the quotas" in done.out
    assert eq("completion").code == 0


def test_help_shows_the_way_a_user_types_it(eq: Command) -> None:
    assert eq("get", "--help").out.startswith("Usage: kubectl elasticquota get [OPTIONS] [NAME]...")
    assert eq("-h").code == 0
    assert eq("--help", plugin=podgroup).out.startswith("Usage: kubectl podgroup")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/usr/bin/kubectl-elasticquota", "kubectl elasticquota"),
        ("", "kubectl elasticquota"),
        ("/opt/eq", "eq"),
    ],
)
def test_the_program_is_called_as_it_was_started(path: str, name: str) -> None:
    assert prog_name("elasticquota", path) == name


def test_a_closed_pipe_ends_the_command_in_silence(api: Api, kubeconfig: Path) -> None:
    api.objects["elasticquotas"] = [quota_object(f"team-{i}", min={"cpu": "4"}) for i in range(3000)]
    command = subprocess.Popen(
        [*PROGRAM, "get", "-A"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
    )
    assert command.stdout is not None
    assert command.stderr is not None
    command.stdout.readline()
    command.stdout.close()
    said = command.stderr.read()
    command.stderr.close()
    assert (command.wait(30), said) == (141, b"")


def test_ctrl_c_ends_a_watch_in_silence(api: Api, kubeconfig: Path) -> None:
    api.objects["elasticquotas"] = [quota_object("team-a", min={"cpu": "4"})]
    command = subprocess.Popen(
        [*PROGRAM, "get", "-w"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ
    )
    assert command.stdout is not None
    assert command.stdout.readline().startswith(b"NAME")
    command.send_signal(signal.SIGINT)
    command.stdout.close()
    assert command.wait(30) == 130
