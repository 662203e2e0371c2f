"""The kubeconfigs of the comparison: a sentence for each, and what differs from a plain file."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from typing import Any, Final

from tests.beside.clients.listener import Listener
from tests.beside.rig.world import Raw

Change = Callable[[Raw, Listener], None]
EXEC: Final = "client.authentication.k8s.io/v1"
_PLUGIN: Final = """\
import json, sys
status = {"token": "from the plugin"}
print(json.dumps({"apiVersion": sys.argv[1], "kind": "ExecCredential", "status": status}))
"""


def plain(listener: Listener) -> Raw:
    """A file with one cluster, a user with a token, and a context."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [
            {
                "name": "c",
                "cluster": {"server": listener.secure, "certificate-authority": str(listener.authority)},
            }
        ],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }


def user(**fields: Any) -> Change:
    """The user's entry has these fields and no other; `_` in a name stands for a hyphen."""

    def change(document: Raw, listener: Listener) -> None:
        document["users"][0]["user"] = {name.replace("_", "-"): value for name, value in fields.items()}

    return change


def cluster(**fields: Any) -> Change:
    """The cluster's entry has these fields besides; None takes one away."""

    def change(document: Raw, listener: Listener) -> None:
        body = document["clusters"][0]["cluster"]
        body.update({name.replace("_", "-"): value for name, value in fields.items()})
        document["clusters"][0]["cluster"] = {
            name: value for name, value in body.items() if value is not None
        }

    return change


def top(**fields: Any) -> Change:
    """The file has these fields."""

    def change(document: Raw, listener: Listener) -> None:
        document.update({name.replace("_", "-"): value for name, value in fields.items()})

    return change


def both(*changes: Change) -> Change:
    """All of these changes."""

    def change(document: Raw, listener: Listener) -> None:
        for one in changes:
            one(document, listener)

    return change


def twice(section: str) -> Change:
    """The first entry of a section is there a second time."""

    def change(document: Raw, listener: Listener) -> None:
        document[section].append(document[section][0])

    return change


def over_http(document: Raw, listener: Listener) -> None:
    """The server has no TLS."""
    document["clusters"][0]["cluster"] = {"server": listener.plain}


def with_data(document: Raw, listener: Listener) -> None:
    """The authority stands in the file itself."""
    body = document["clusters"][0]["cluster"]
    del body["certificate-authority"]
    body["certificate-authority-data"] = base64.b64encode(listener.authority.read_bytes()).decode()


def both_authorities(document: Raw, listener: Listener) -> None:
    """The authority as a file, and another one in the file itself."""
    body = document["clusters"][0]["cluster"]
    body["certificate-authority-data"] = base64.b64encode(listener.authority.read_bytes()).decode()


def certificate(*, key: bool = True) -> Change:
    """The user has a client certificate, here that of the server, with its key or without."""

    def change(document: Raw, listener: Listener) -> None:
        body = {"client-certificate": str(listener.folder / "server.crt")}
        if key:
            body["client-key"] = str(listener.folder / "server.key")
        document["users"][0]["user"] = body

    return change


def plugin(**fields: Any) -> Change:
    """The user's credentials come from a program; None takes a field of it away."""

    def change(document: Raw, listener: Listener) -> None:
        version = fields.get("apiVersion", EXEC)
        body = {
            "apiVersion": version,
            "command": sys.executable,
            "args": ["-c", _PLUGIN, str(version)],
            "interactiveMode": "Never",
            **fields,
        }
        found = {name: value for name, value in body.items() if value is not None}
        document["users"][0]["user"] = {"exec": found}

    return change


KUBECONFIGS: Final[dict[str, Change]] = {
    "a token": user(token="secret"),
    "a user without anything": user(),
    "a password": user(username="a", password="b"),
    "a name without a password": user(username="a"),
    "a token and a password": user(token="t", username="a", password="b"),
    "a token file wins over a token": user(tokenFile="token", token="t"),
    "a token file that does not exist": user(tokenFile="missing"),
    "acting as somebody": user(token="t", **{"as": "bob"}),
    "acting as somebody of groups": user(token="t", as_groups=["g1", "g2"], **{"as": "bob"}),
    "acting as somebody with a uid": user(token="t", as_uid="7", **{"as": "bob"}),
    "acting as somebody with more about them": user(
        token="t", as_user_extra={"scopes": ["v1", "v2"], "Team/a b": ["x"]}, **{"as": "bob"}
    ),
    "groups without a user": user(token="t", as_groups=["g1"]),
    "a uid without a user": user(token="t", as_uid="7"),
    "more about nobody": user(token="t", as_user_extra={"scopes": ["v1"]}),
    "a token over http": both(user(token="secret"), over_http),
    "a password over http": both(user(username="a", password="b"), over_http),
    "acting as somebody over http": both(user(token="t", **{"as": "bob"}), over_http),
    "a plugin": plugin(),
    "a plugin over http": both(plugin(), over_http),
    "a plugin of the version before": plugin(
        apiVersion="client.authentication.k8s.io/v1beta1", interactiveMode=None
    ),
    "a plugin that does not say whether it asks": plugin(interactiveMode=None),
    "a plugin that always asks": plugin(interactiveMode="Always"),
    "a plugin that asks in a way that does not exist": plugin(interactiveMode="Sometimes"),
    "a plugin without a version": plugin(apiVersion=None),
    "a plugin of an unknown version": plugin(apiVersion="client.authentication.k8s.io/v9"),
    "a plugin without a command": plugin(command=None),
    "a plugin that is not installed": plugin(command="muster-no-such-program", installHint="get it"),
    "a plugin with a variable without a name": plugin(env=[{"name": "", "value": "x"}]),
    "a plugin and a token": both(
        plugin(), lambda document, _: document["users"][0]["user"].update(token="secret")
    ),
    "insecure": cluster(insecure_skip_tls_verify=True, certificate_authority=None),
    "insecure with an authority": cluster(insecure_skip_tls_verify=True),
    "no authority": cluster(certificate_authority=None),
    "an authority that does not exist": cluster(certificate_authority="missing.crt"),
    "an authority as data": with_data,
    "an authority twice": both_authorities,
    "an authority that is no base64": cluster(certificate_authority=None, certificate_authority_data="%%"),
    "another name of the server": cluster(tls_server_name="kubernetes"),
    "a name that the server does not have": cluster(tls_server_name="somebody.else"),
    "a client certificate": certificate(),
    "a client certificate without its key": certificate(key=False),
    "a user twice": twice("users"),
    "a cluster twice": twice("clusters"),
    "a context twice": twice("contexts"),
    "no current context": top(current_context=""),
    "a current context that does not exist": top(current_context="y"),
    "a context with a user that does not exist": top(
        contexts=[{"name": "x", "context": {"cluster": "c", "user": "missing"}}]
    ),
    "a context with a cluster that does not exist": top(
        contexts=[{"name": "x", "context": {"cluster": "missing", "user": "u"}}]
    ),
    "a context without a user": top(contexts=[{"name": "x", "context": {"cluster": "c"}}]),
    "a cluster without a server": cluster(server=""),
    "a server with a path": lambda document, listener: cluster(server=f"{listener.secure}/k8s")(
        document, listener
    ),
    "an unknown field": top(nonsense=1),
    "a token that is a number": user(token=7),
    "a list of users that is none": top(users={"name": "u"}),
}
