"""kubeconfig: which server, as whom, in which namespace, for files and flags as kubectl reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scheduler_core.kube.auth.kubeconfig import Entry
from scheduler_core.kube.auth.users import Impersonation, check_user
from scheduler_core.kube.connect import Overrides, resolve_target
from scheduler_core.kube.errors import KubeconfigError
from tests.support.clusters.kubeconfigs import PEM, b64, document, exec_plugin, target, write


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
    (
        "a user who acts as another one",
        {"token": "t", "as": "bob", "as-groups": ["g1", "g2"], "as-uid": "7"},
        [
            ("Authorization", "Bearer t"),
            ("Impersonate-User", "bob"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-Group", "g1"),
            ("Impersonate-Group", "g2"),
        ],
    ),
    (
        "keys of an extra are escaped",
        {"as": "bob", "as-user-extra": {"Scopes/a b%": ["v1", "v2"]}},
        [
            ("Impersonate-User", "bob"),
            ("Impersonate-Extra-Scopes%2Fa%20b%25", "v1"),
            ("Impersonate-Extra-Scopes%2Fa%20b%25", "v2"),
        ],
    ),
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


def test_certificates_as_data_and_as_files_beside_the_kubeconfig(
    tmp_path: Path,
) -> None:
    write(tmp_path / "certs" / "key.pem", "key from a file")
    user = {
        "client-certificate-data": b64(PEM),
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
    assert flagged.credentials.headers() == [], "credentials go over TLS only"
    assert target(path, token="given").credentials.headers() == [("Authorization", "Bearer given")]
    acting = target(path, impersonate=Impersonation("jane", groups=("g1", "g2")))
    assert acting.credentials.headers()[1:] == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "g1"),
        ("Impersonate-Group", "g2"),
    ]


@pytest.mark.parametrize(
    ("flags", "acting"),
    [
        pytest.param(Impersonation("eve"), Impersonation("eve", "7", ("g",)), id="another user"),
        pytest.param(Impersonation(groups=("h",)), Impersonation("bob", "7", ("h",)), id="other groups"),
        pytest.param(Impersonation(uid="8"), Impersonation("bob", "8", ("g",)), id="another uid"),
    ],
)
def test_flags_replace_what_they_name_of_whom_the_kubeconfig_acts_as(
    tmp_path: Path, flags: Impersonation, acting: Impersonation
) -> None:
    user = {"as": "bob", "as-uid": "7", "as-groups": ["g"]}
    found = target(
        write(tmp_path / "config", document(users=[{"name": "u", "user": user}])), impersonate=flags
    )
    assert found.credentials.headers() == list(acting.headers())


def test_trust_of_flags_replaces_that_of_the_kubeconfig(tmp_path: Path) -> None:
    authority = write(tmp_path / "ca.pem", "flag")
    for cluster in ({"insecure-skip-tls-verify": True}, {"certificate-authority-data": b64("ca")}):
        body = {"server": "https://x", **cluster}
        path = write(tmp_path / "config", document(clusters=[{"name": "c", "cluster": body}]))
        found = target(path, certificate_authority=str(authority)).endpoint
        assert (found.ca, found.insecure) == ("flag", False)
        found = target(path, insecure=True).endpoint
        assert (found.ca, found.insecure) == ("", True)


def test_no_plugin_runs_for_a_server_without_tls(tmp_path: Path) -> None:
    content = document(
        users=[{"name": "u", "user": {"exec": exec_plugin("/nonexistent/plugin"), "as": "bob"}}],
        clusters=[{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    )
    found = target(write(tmp_path / "config", content))
    assert found.credentials.headers() == [("Impersonate-User", "bob")]


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
    *(
        (sentence, document(users=[{"name": "u", "user": user}]), {}, problem)
        for sentence, user, problem in (
            (
                "groups of nobody",
                {"as-groups": ["g"]},
                "user 'u' has as-uid, as-groups or as-user-extra without as",
            ),
            ("an extra of nobody", {"as-user-extra": {"a": ["b"]}}, "without as"),
            ("a user to act as that is a number", {"as": 5}, "as of 'u' is not a string"),
            (
                "groups that are a text",
                {"as": "x", "as-groups": "g"},
                "as-groups of 'u' is not a list of strings",
            ),
            (
                "extra that is a list",
                {"as": "x", "as-user-extra": ["g"]},
                "as-user-extra of 'u' is not a map",
            ),
            ("a token beside a password", {"token": "t", "username": "a"}, "only one is allowed"),
            (
                "a certificate twice",
                {"client-certificate": "x", "client-certificate-data": b64(PEM), "client-key": "x"},
                "user 'u' has both client-certificate and client-certificate-data",
            ),
            (
                "a key twice",
                {"client-certificate": "x", "client-key-data": b64(PEM), "client-key": "x"},
                "user 'u' has both client-key and client-key-data",
            ),
            (
                "a plugin beside a provider",
                {"exec": exec_plugin("p"), "auth-provider": {"name": "x"}},
                "the exec plugin of user 'u' stands beside an auth-provider",
            ),
            (
                "a plugin without a command",
                {"exec": {**exec_plugin("p"), "command": ""}},
                "'u' has no command",
            ),
            (
                "a plugin without a version",
                {"exec": {**exec_plugin("p"), "apiVersion": ""}},
                "has no apiVersion",
            ),
            (
                "a plugin of an unknown version",
                {"exec": {**exec_plugin("p"), "apiVersion": "client.authentication.k8s.io/v9"}},
                "has the apiVersion 'client.authentication.k8s.io/v9', not one of "
                "client.authentication.k8s.io/v1, client.authentication.k8s.io/v1beta1",
            ),
            (
                "a plugin of a version that is no more",
                {"exec": {**exec_plugin("p"), "apiVersion": "client.authentication.k8s.io/v1alpha1"}},
                "has the apiVersion 'client.authentication.k8s.io/v1alpha1'",
            ),
            (
                "a plugin that does not say whether it asks",
                {"exec": {**exec_plugin("p"), "interactiveMode": ""}},
                "has no interactiveMode, not one of Never, IfAvailable, Always",
            ),
            (
                "a plugin of an unknown mode",
                {"exec": {**exec_plugin("p"), "interactiveMode": "Sometimes"}},
                "has the interactiveMode 'Sometimes'",
            ),
            (
                "a plugin that asks where nobody answers",
                {"exec": {**exec_plugin("p"), "interactiveMode": "Always"}},
                "asks the user (interactiveMode Always), and the input is no terminal",
            ),
            (
                "a plugin with a variable without a name",
                {"exec": {**exec_plugin("p"), "env": [{"value": "x"}]}},
                "has an environment variable without a name",
            ),
            (
                "a plugin that is missing, with a hint",
                {"exec": {**exec_plugin("/nonexistent/plugin"), "installHint": "get it\n\x1b[1mhere"}},
                "; get it [1mhere",
            ),
        )
    ),
    (
        "an authority twice",
        document(
            clusters=[
                {
                    "name": "c",
                    "cluster": {
                        "server": "https://x",
                        "certificate-authority": "x",
                        "certificate-authority-data": b64(PEM),
                    },
                }
            ]
        ),
        {},
        "cluster 'c' has both certificate-authority and certificate-authority-data",
    ),
    (
        "an authority that is not asked",
        document(
            clusters=[
                {
                    "name": "c",
                    "cluster": {
                        "server": "https://x",
                        "insecure-skip-tls-verify": True,
                        "certificate-authority-data": b64(PEM),
                    },
                }
            ]
        ),
        {},
        "cluster 'c' has a certificate authority and insecure-skip-tls-verify; only one is allowed",
    ),
    (
        "a name twice",
        document(clusters=2 * [{"name": "c", "cluster": {"server": "https://x"}}]),
        {},
        "clusters[1]: the name 'c' is there twice",
    ),
    (
        "an exec plugin that is not installed",
        document(users=[{"name": "u", "user": {"exec": exec_plugin("/nonexistent/plugin")}}]),
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
    with pytest.raises(KubeconfigError, match="--as-group and --as-uid: each needs --as"):
        resolve_target(Overrides(server="http://x", impersonate=Impersonation(groups=("g",))), {})


def test_a_plugin_that_asks_is_refused_without_an_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    asks = Entry("u", {"exec": {**exec_plugin("p"), "interactiveMode": "Always"}}, "file")
    with pytest.raises(KubeconfigError, match="the input is no terminal"):
        check_user(asks)
