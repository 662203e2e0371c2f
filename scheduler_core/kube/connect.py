"""Construction of a Client from kubeconfig files, command-line overrides or the pod's service account.

This module handles tokens, token files, client certificates and passwords itself, so that a command line
starts without the import of the official client (0.2 s). The official client handles exec plugins, auth
providers and service accounts.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scheduler_core.kube.auth.credentials import (
    CertificateFiles,
    Impersonating,
    OfficialCredentials,
    StaticCredentials,
    TokenFile,
    WithCertificateFiles,
)
from scheduler_core.kube.auth.kubeconfig import (
    Entry,
    Kubeconfig,
    KubeconfigSelection,
    find_files,
    load,
    select,
)
from scheduler_core.kube.auth.official import kubeconfig_configuration, service_account_configuration
from scheduler_core.kube.auth.users import (
    NOBODY,
    Impersonation,
    check_acting,
    check_once,
    check_user,
    impersonation_of,
    install_hint,
)
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import KubeconfigError
from scheduler_core.kube.http.endpoint import Endpoint, environment_proxy
from scheduler_core.kube.http.session import Credentials, Limits, Session
from scheduler_core.kube.rate import RateLimiter

# A constant, because reading the version of the installed package takes 30 ms at the start of every command.
USER_AGENT = "muster/0.1.0"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Overrides:
    """The connection flags of kubectl. An empty value, or a `request_timeout` (seconds) of 0, means not
    given.
    """

    kubeconfig: str = ""
    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    server: str = ""
    token: str = ""
    certificate_authority: str = ""
    insecure: bool = False
    tls_server_name: str = ""
    impersonate: Impersonation = NOBODY
    request_timeout: float = 0.0


@dataclass(frozen=True)
class Target:
    """An API server, the credentials for it, and the default namespace."""

    endpoint: Endpoint
    credentials: Credentials
    namespace: str
    context: str = ""


def connect(
    overrides: Overrides | None = None,
    *,
    qps: float = 0.0,
    burst: int = 0,
    environ: Mapping[str, str] = os.environ,
) -> tuple[Client, Target]:
    """A client for the server that flags, kubeconfig files or the service account name; sends no request.

    A `qps` of 0 means no client-side rate limit. Raises KubeconfigError.
    """
    overrides = overrides or Overrides()
    target = resolve_target(overrides, environ)
    limits = Limits(read=overrides.request_timeout) if overrides.request_timeout > 0 else Limits()
    session = Session(target.endpoint, target.credentials, user_agent=USER_AGENT, limits=limits)
    limiter = RateLimiter(qps, max(burst, 1)) if qps > 0 else None
    return Client(session, limiter=limiter), target


def resolve_target(overrides: Overrides, environ: Mapping[str, str] = os.environ) -> Target:
    """The server, the credentials and the namespace to use. Raises KubeconfigError."""
    files = find_files(overrides.kubeconfig, environ)
    if not files and not overrides.server:
        if environ.get("KUBERNETES_SERVICE_HOST"):
            return _in_cluster(overrides)
        named = environ.get("KUBECONFIG") or "~/.kube/config"
        raise KubeconfigError(named, "no such file, and this is not a pod; set KUBECONFIG or --kubeconfig")
    config = load(files)
    selection = select(config, context=overrides.context, cluster=overrides.cluster, user=overrides.user)
    endpoint = _endpoint(config, selection, overrides, environ)
    user = selection.user or Entry("", {}, config.source)
    check_user(user)
    acting = overrides.impersonate.over(impersonation_of(user))
    check_acting(acting, user)
    # As kubectl does, credentials go over TLS only; who is impersonated is no secret.
    own = _credentials(config, selection, overrides, user) if endpoint.tls else StaticCredentials()
    namespace = overrides.namespace or selection.namespace or "default"
    return Target(endpoint, _acting(own, acting), namespace, selection.context)


def _endpoint(
    config: Kubeconfig, selection: KubeconfigSelection, overrides: Overrides, environ: Mapping[str, str]
) -> Endpoint:
    cluster = selection.cluster or Entry("", {}, config.source)
    server = overrides.server or _string(cluster, "server")
    if not server:
        what = "current-context is not set" if not selection.context else "the context names no cluster"
        problem = f"cluster {cluster.name!r} has no server" if cluster.name else what
        raise KubeconfigError(cluster.file, problem)
    insecure, authority = _trust(cluster, overrides)
    return Endpoint(
        server,
        ca="" if insecure else authority,
        insecure=insecure,
        tls_server_name=overrides.tls_server_name or _string(cluster, "tls-server-name"),
        proxy=_string(cluster, "proxy-url") or environment_proxy(server, environ),
        source=cluster.file,
    )


def _trust(cluster: Entry, overrides: Overrides) -> tuple[bool, str]:
    """Whether certificates are not verified, and the authority (PEM) that they are verified by.

    Of the flags, each one that is given replaces both of what the kubeconfig says.
    """
    if overrides.certificate_authority:
        given = _file("command line", "certificate-authority", overrides.certificate_authority).decode()
        if overrides.insecure:
            raise KubeconfigError("command line", "--insecure-skip-tls-verify with --certificate-authority")
        return False, given
    check_once(cluster, "cluster", "certificate-authority")
    authority = _pem(cluster, "certificate-authority").decode("utf-8", "replace")
    if overrides.insecure:
        return True, ""
    insecure = cluster.body.get("insecure-skip-tls-verify") is True
    if insecure and authority:
        problem = "has a certificate authority and insecure-skip-tls-verify; only one is allowed"
        raise KubeconfigError(cluster.file, f"cluster {cluster.name!r} {problem}")
    return insecure, authority


def _credentials(
    config: Kubeconfig, selection: KubeconfigSelection, overrides: Overrides, user: Entry
) -> Credentials:
    named = _named(config, selection, overrides, user)
    files = _certificate(user)
    return named if files is None else WithCertificateFiles(named, files)


def _named(
    config: Kubeconfig, selection: KubeconfigSelection, overrides: Overrides, user: Entry
) -> StaticCredentials | TokenFile | OfficialCredentials:
    """The credentials of the user's headers, without its client certificate."""
    if overrides.token:
        return StaticCredentials(token=overrides.token)
    if token_file := _string(user, "tokenFile"):
        return TokenFile(Path(token_file), user.file)
    if token := _string(user, "token"):
        return StaticCredentials(token=token, source=user.file)
    if user.body.get("exec") or user.body.get("auth-provider"):
        hint = install_hint(user)
        return OfficialCredentials(lambda: kubeconfig_configuration(config, selection, user), user.file, hint)
    return StaticCredentials(
        username=_string(user, "username"), password=_string(user, "password"), source=user.file
    )


def _in_cluster(overrides: Overrides) -> Target:
    """The pod's service account; its token is read again because the kubelet renews it."""
    credentials = OfficialCredentials(service_account_configuration, "in-cluster")
    authority = _file("in-cluster", "ca.crt", credentials.configuration.ssl_ca_cert).decode()
    endpoint = Endpoint(credentials.configuration.host, ca=authority, source="in-cluster")
    namespace = overrides.namespace
    own = SERVICE_ACCOUNT / "namespace"
    if not namespace and own.is_file():
        namespace = own.read_text(encoding="utf-8").strip()
    acting = overrides.impersonate.over(NOBODY)
    return Target(endpoint, _acting(credentials, acting), namespace or "default")


def _acting(credentials: Credentials, acting: Impersonation) -> Credentials:
    return Impersonating(credentials, acting) if acting.user else credentials


def _certificate(user: Entry) -> CertificateFiles | None:
    certificate, key = _part(user, "client-certificate"), _part(user, "client-key")
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise KubeconfigError(user.file, f"user {user.name!r} has no {missing}")
    return CertificateFiles(certificate, key, user.file) if certificate and key else None


def _part(entry: Entry, key: str) -> Path | bytes:
    """The value of `<key>-data`, which takes precedence, or the path in `<key>`; empty bytes if neither is
    set.
    """
    if entry.body.get(f"{key}-data") or not (path := _string(entry, key)):
        return _pem(entry, key)
    _file(entry.file, key, path)
    return Path(path)


def _pem(entry: Entry, key: str) -> bytes:
    """The decoded `<key>-data`, which takes precedence, or the content of the file `<key>`; empty if neither
    is set.
    """
    data = _string(entry, f"{key}-data")
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise KubeconfigError(
                entry.file, f"{key}-data of {entry.name!r} is not base64: {error}"
            ) from None
    path = _string(entry, key)
    return _file(entry.file, key, path) if path else b""


def _file(source: str, key: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise KubeconfigError(source, f"{key} {path}: {(error.strerror or str(error)).lower()}") from None


def _string(entry: Entry, key: str) -> str:
    value = entry.body.get(key) or ""
    if not isinstance(value, str):
        raise KubeconfigError(entry.file, f"{key} of {entry.name!r} is not a string")
    return value
