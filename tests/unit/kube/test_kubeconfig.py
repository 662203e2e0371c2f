"""kubeconfig: which server, as whom, in which namespace, for files and flags as kubectl reads them."""

from __future__ import annotations

import base64
import importlib
import importlib.metadata
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler_core.kube.connect import USER_AGENT, Overrides, Target, connect, resolve_target
from scheduler_core.kube.credentials import OfficialCredentials
from scheduler_core.kube.errors import KubeconfigError

PEM = "-----BEGIN CERTIFICATE-----\nnot checked here\n-----END CERTIFICATE-----\n"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def document(**changes: Any) -> dict[str, Any]:
    """One cluster, one user with a token, one context."""
    result: dict[str, Any] = {
        "current-context": "dev",
        "clusters": [{"name": "c", "cluster": {"server": "https://dev.example:6443"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}}],
    }
    result.update(changes)
    return result


def write(path: Path, content: dict[str, Any] | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def target(path: Path, **flags: Any) -> Target:
    return resolve_target(Overrides(kubeconfig=str(path), **flags), {})


def test_a_token_user(tmp_path: Path) -> None:
    found = target(write(tmp_path / "config", document()))
    assert (found.endpoint.host, found.endpoint.port, found.endpoint.tls) == ("dev.example", 6443, True)
    assert found.credentials.headers() == [("Authorization", "Bearer secret")]
    assert (found.namespace, found.context) == ("team-a", "dev")


# sentence, the user's entry, the headers that are sent
USERS: list[tuple[str, dict[str, Any], list[tuple[str, str]]]] = [
    (
        "a password is basic authentication",
        {"username": "a", "password": "b"},
        [("Authorization", "Basic YTpi")],
    ),
    ("a user without anything is anonymous", {}, []),
    ("a token wins over a password", {"token": "t", "username": "a"}, [("Authorization", "Bearer t")]),
    (
        "a token file is found beside the kubeconfig",
        {"tokenFile": "token"},
        [("Authorization", "Bearer filed")],
    ),
    (
        "a token file wins over a token",
        {"tokenFile": "token", "token": "t"},
        [("Authorization", "Bearer filed")],
    ),
]


@pytest.mark.parametrize(("user", "headers"), [u[1:] for u in USERS], ids=[u[0] for u in USERS])
def test_users(tmp_path: Path, user: dict[str, Any], headers: list[tuple[str, str]]) -> None:
    (tmp_path / "token").write_text("filed\n")
    found = target(write(tmp_path / "config", document(users=[{"name": "u", "user": user}])))
    assert found.credentials.headers() == headers


def test_certificates_from_data_win_over_files_and_files_are_relative_to_the_kubeconfig(
    tmp_path: Path,
) -> None:
    write(tmp_path / "certs" / "key.pem", "key from a file")
    user = {
        "client-certificate-data": b64(PEM),
        "client-certificate": "nowhere",
        "client-key": "certs/key.pem",
    }
    cluster = {"server": "https://x", "certificate-authority-data": b64("ca text")}
    content = document(users=[{"name": "u", "user": user}], clusters=[{"name": "c", "cluster": cluster}])
    found = target(write(tmp_path / "config", content))
    pair = found.credentials.certificate()
    assert pair is not None
    assert (pair.certificate, pair.key) == (PEM.encode(), b"key from a file")
    assert (found.endpoint.ca, found.endpoint.port) == ("ca text", 443)


def test_several_files_merge_so_that_the_first_to_name_something_wins(tmp_path: Path) -> None:
    other = document(**{"current-context": "other"})
    other["clusters"] = [{"name": "c", "cluster": {"server": "https://ignored"}}]
    other["contexts"] = [{"name": "other", "context": {"cluster": "c", "user": "u", "namespace": "b"}}]
    first, second = write(tmp_path / "1", document()), write(tmp_path / "2", other)
    environ = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}::{second}"}
    assert resolve_target(Overrides(), environ).context == "dev"
    switched = resolve_target(Overrides(context="other"), environ)
    assert (switched.namespace, switched.endpoint.host) == ("b", "dev.example")


def test_the_default_file_is_in_the_home_directory(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config", document())
    assert resolve_target(Overrides(), {"HOME": str(tmp_path)}).endpoint.host == "dev.example"


def test_flags_win(tmp_path: Path) -> None:
    content = document()
    content["clusters"].append({"name": "c2", "cluster": {"server": "https://second"}})
    content["users"].append({"name": "u2", "user": {"token": "second"}})
    path = write(tmp_path / "config", content)
    chosen = target(path, cluster="c2", user="u2", namespace="z")
    assert (chosen.endpoint.host, chosen.namespace) == ("second", "z")
    assert chosen.credentials.headers() == [("Authorization", "Bearer second")]
    flagged = target(path, server="http://127.0.0.1:8001", token="given", insecure=True)
    assert (flagged.endpoint.port, flagged.endpoint.tls, flagged.endpoint.insecure) == (8001, False, True)
    assert flagged.credentials.headers() == [("Authorization", "Bearer given")]
    acting = target(path, impersonate="jane", impersonate_groups=("g1", "g2"))
    assert acting.credentials.headers()[1:] == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "g1"),
        ("Impersonate-Group", "g2"),
    ]


def test_a_server_alone_needs_no_file() -> None:
    found = resolve_target(Overrides(server="http://127.0.0.1:8001"), {})
    assert (found.endpoint.host, found.namespace) == ("127.0.0.1", "default")


# sentence, content, flags, the message after "<file>: "
BROKEN: list[tuple[str, Any, dict[str, Any], str]] = [
    ("a file that is no YAML", "a: [", {}, "not YAML: while parsing a flow node"),
    ("a file that is a list", "- a", {}, "expected a mapping, found a list"),
    ("clusters that are no list", {"clusters": {}, "users": 3}, {}, "users is not a list"),
    ("an entry without a name", {"users": [{"user": {}}]}, {}, "users[0] has no name"),
    ("no current context", {}, {}, "current-context is not set"),
    ("an unknown context", document(), {"context": "x"}, "context 'x' does not exist (there are: dev)"),
    ("an unknown cluster", document(), {"cluster": "x"}, "cluster 'x' does not exist (there are: c)"),
    ("an unknown user", document(), {"user": "x"}, "user 'x' does not exist (there are: u)"),
    ("a current context that is not there", {"current-context": "gone"}, {}, "context 'gone' does not exist"),
    ("a cluster without server", document(clusters=[{"name": "c"}]), {}, "cluster 'c' has no server"),
    (
        "a server that is no URL",
        document(),
        {"server": "dev:6443"},
        "server 'dev:6443' is not an http or https",
    ),
    ("a port that is no port", document(), {"server": "https://x:99999"}, "Port out of range 0-65535"),
    (
        "data that is not base64",
        document(users=[{"name": "u", "user": {"client-key-data": "%"}}]),
        {},
        "client-key-data of 'u' is not base64",
    ),
    (
        "a certificate without key",
        document(users=[{"name": "u", "user": {"client-certificate-data": b64(PEM)}}]),
        {},
        "user 'u' has no client-key",
    ),
    (
        "a missing file",
        document(users=[{"name": "u", "user": {"client-certificate": "gone.pem"}}]),
        {},
        "gone.pem: no such file or directory",
    ),
    (
        "a token that is not a string",
        document(users=[{"name": "u", "user": {"token": 5}}]),
        {},
        "token of 'u' is not a string",
    ),
    (
        "a proxy of an unsupported kind",
        document(clusters=[{"name": "c", "cluster": {"server": "https://x", "proxy-url": "socks5://p"}}]),
        {},
        "a socks5:// proxy (p) is not supported",
    ),
    (
        "an exec plugin that is not installed",
        document(
            users=[
                {
                    "name": "u",
                    "user": {
                        "exec": {
                            "apiVersion": "client.authentication.k8s.io/v1",
                            "command": "/nonexistent/plugin",
                            "interactiveMode": "Never",
                        }
                    },
                }
            ]
        ),
        {},
        "/nonexistent/plugin",
    ),
]


@pytest.mark.parametrize(("content", "flags", "problem"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_a_broken_kubeconfig_is_one_line_with_its_file(
    tmp_path: Path, content: Any, flags: dict[str, Any], problem: str
) -> None:
    path = write(tmp_path / "config", content)
    with pytest.raises(KubeconfigError) as caught:
        target(path, **flags)
    assert str(caught.value).startswith(f"{path}: ")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_header_cannot_be_smuggled_in_a_token(tmp_path: Path) -> None:
    user = {"token": "t\r\nX-Evil: 1"}
    found = target(write(tmp_path / "config", document(users=[{"name": "u", "user": user}])))
    with pytest.raises(KubeconfigError, match="no HTTP header can carry"):
        found.credentials.headers()


def test_missing_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="gone: no such file"):
        resolve_target(Overrides(kubeconfig=str(tmp_path / "gone")), {})
    with pytest.raises(KubeconfigError, match="no such file, and this is not a pod"):
        resolve_target(Overrides(), {"HOME": str(tmp_path)})
    with pytest.raises(KubeconfigError, match="--as-group needs --as"):
        resolve_target(Overrides(server="http://x", impersonate_groups=("g",)), {})


def test_an_exec_plugin_is_run_by_the_official_loader(tmp_path: Path) -> None:
    plugin = write(
        tmp_path / "bin" / "plugin",
        "#!/bin/sh\n"
        'echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"token":"from-plugin"}}\'\n',
    )
    plugin.chmod(0o755)
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./bin/plugin",
            "interactiveMode": "Never",
        }
    }
    found = target(write(tmp_path / "config", document(users=[{"name": "u", "user": user}])))
    assert isinstance(found.credentials, OfficialCredentials)
    assert found.credentials.headers() == [("Authorization", "Bearer from-plugin")]
    assert found.credentials.refresh()


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
