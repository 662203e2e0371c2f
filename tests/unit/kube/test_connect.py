"""Credentials that others keep: plugins, service accounts; proxies; what a connection costs to start."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler_core.kube.auth.credentials import TOKEN_FILE_SECONDS, OfficialCredentials, TokenFile
from scheduler_core.kube.connect import USER_AGENT, Overrides, connect, resolve_target
from scheduler_core.kube.errors import KubeconfigError
from tests.support.clusters.kubeconfigs import PEM, document, exec_plugin, target, write
from tests.support.eventually import eventually


def test_an_exec_plugin_is_run_by_the_official_loader(tmp_path: Path) -> None:
    plugin = write(
        tmp_path / "bin" / "plugin",
        "#!/bin/sh\n"
        'echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"token":"from-plugin"}}\'\n',
    )
    plugin.chmod(0o755)
    user = {"exec": exec_plugin("./bin/plugin")}
    found = target(write(tmp_path / "config", document(users=[{"name": "u", "user": user}])))
    assert isinstance(found.credentials, OfficialCredentials)
    assert found.credentials.headers() == [("Authorization", "Bearer from-plugin")]
    assert found.credentials.refresh()


def hanging_plugin(tmp_path: Path, hangs: Path) -> Path:
    """A kubeconfig whose plugin hangs while `hangs` exists, and a child of it as well."""
    plugin = write(
        tmp_path / "plugin",
        f"#!/bin/sh\n"
        f"hang() {{ while [ -e {hangs} ]; do sleep 0.1; done; }}\n"
        "hang & hang\n"
        'echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"token":"good","expirationTimestamp":"2020-01-01T00:00:00Z"}}\'\n',
    )
    plugin.chmod(0o755)
    return write(
        tmp_path / "config", document(users=[{"name": "u", "user": {"exec": exec_plugin(str(plugin))}}])
    )


def test_an_exec_plugin_that_hangs_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_core.kube.auth.official.EXEC_SECONDS", 0.5)
    (tmp_path / "hangs").touch()
    with pytest.raises(KubeconfigError, match=r"plugin gave no credentials in 0\.5 s and was ended"):
        target(hanging_plugin(tmp_path, tmp_path / "hangs"))


def test_requests_go_on_with_the_old_token_while_a_plugin_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_core.kube.auth.official.EXEC_SECONDS", 90.0)
    monkeypatch.setattr("scheduler_core.kube.auth.credentials.REFRESH_SECONDS", 0.0)
    credentials = target(hanging_plugin(tmp_path, tmp_path / "hangs")).credentials
    assert credentials.headers() == [("Authorization", "Bearer good")]
    (tmp_path / "hangs").touch()
    began = time.monotonic()
    for _ in range(100):
        assert credentials.headers() == [("Authorization", "Bearer good")]
    assert time.monotonic() - began < 60.0
    (tmp_path / "hangs").unlink()


def test_of_all_that_got_a_401_one_runs_the_plugin(tmp_path: Path) -> None:
    started = threading.Barrier(8)
    loads: list[int] = []
    renewing: list[int] = []

    def load() -> Any:
        loads.append(1)
        if len(loads) > 1:
            # All others wait for this one, and the last one has come but a moment ago.
            eventually(lambda: len(renewing) == 8)
            time.sleep(1)
        return SimpleNamespace(api_key={}, cert_file=None, auth_settings=dict)

    credentials = OfficialCredentials(load, "test")

    def renew() -> None:
        started.wait()
        renewing.append(1)
        credentials.refresh()

    threads = [threading.Thread(target=renew) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 2


def test_a_token_file_that_is_being_written_leaves_the_last_token(tmp_path: Path) -> None:
    path, now = tmp_path / "token", [0.0]
    credentials = TokenFile(path, monotonic=lambda: now[0])
    with pytest.raises(KubeconfigError, match=r"tokenFile .*No such file"):
        credentials.headers()
    path.write_text("old\n")
    assert credentials.headers() == [("Authorization", "Bearer old")]
    for content in (b"", b"\xff", None):
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        now[0] += 2 * TOKEN_FILE_SECONDS
        assert credentials.headers() == [("Authorization", "Bearer old")]
        assert not credentials.refresh()
    path.write_text("new\n")
    assert credentials.refresh()
    assert credentials.headers() == [("Authorization", "Bearer new")]


# sentence, environment, server, the proxy that is used
PROXIES = [
    ("https_proxy is used for https", {"https_proxy": "http://p:1"}, "https://dev.example", "http://p:1"),
    ("capital letters do as well", {"HTTPS_PROXY": "p:1"}, "https://dev.example", "http://p:1"),
    ("http_proxy is not for https", {"http_proxy": "http://p:1"}, "https://dev.example", ""),
    ("loopback goes direct", {"http_proxy": "http://p:1"}, "http://127.0.0.1:1", ""),
    (
        "a domain can be exempt",
        {"https_proxy": "http://p", "no_proxy": "x,.example"},
        "https://dev.example",
        "",
    ),
    (
        "a network can be exempt",
        {"https_proxy": "http://p", "NO_PROXY": "10.0.0.0/8"},
        "https://10.1.2.3",
        "",
    ),
    ("everything can be exempt", {"https_proxy": "http://p", "no_proxy": "*"}, "https://dev.example", ""),
    (
        "others are not exempt",
        {"https_proxy": "http://p", "no_proxy": "ample"},
        "https://dev.example",
        "http://p",
    ),
]


@pytest.mark.parametrize(
    ("environ", "server", "proxy"), [p[1:] for p in PROXIES], ids=[p[0] for p in PROXIES]
)
def test_proxies_of_the_environment(environ: dict[str, str], server: str, proxy: str) -> None:
    assert resolve_target(Overrides(server=server), environ).endpoint.proxy == proxy


def test_in_a_pod_the_service_account_is_used_and_its_token_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    official = importlib.import_module("kubernetes.config.incluster_config")
    token, authority = write(tmp_path / "token", "first\n"), write(tmp_path / "ca.crt", PEM)
    write(tmp_path / "namespace", "muster-system")
    monkeypatch.setattr(official, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(official, "SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.setattr("scheduler_core.kube.connect.SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = resolve_target(Overrides(), {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "fd00::1"})
    assert (found.endpoint.host, found.endpoint.ca, found.namespace) == ("fd00::1", PEM, "muster-system")
    assert found.credentials.headers() == [("Authorization", "Bearer first")]
    write(token, "second\n")
    assert found.credentials.refresh()
    assert found.credentials.headers() == [("Authorization", "Bearer second")]


def test_the_user_agent_names_the_installed_version() -> None:
    assert f"muster/{importlib.metadata.version('muster')}" == USER_AGENT


def test_connecting_by_token_imports_neither_the_official_client_nor_numpy(tmp_path: Path) -> None:
    path = write(tmp_path / "config", document())
    program = textwrap.dedent(f"""
        import sys
        from scheduler_core.kube.connect import Overrides, connect
        connect(Overrides(kubeconfig={str(path)!r}))
        print([name for name in ("kubernetes", "numpy", "flask", "urllib3") if name in sys.modules])
    """)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_client_has_the_rate_and_the_time_limit_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "config", document())
    client, found = connect(Overrides(kubeconfig=str(path), request_timeout=7), qps=5, burst=2)
    assert found.namespace == "team-a"
    assert client.session.limits.read == 7
