"""The connection of one command: made from kubectl's flags the first time that it is needed."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import click

from kubectl_plugin.entry import CommandFailed, check_segment
from kubectl_plugin.options import Connection, all_namespaces, connection_of
from scheduler_core.kube.answers import Answer
from scheduler_core.kube.client import Client
from scheduler_core.kube.connect import Overrides, Target, resolve_target
from scheduler_core.kube.endpoint import ClientCertificate
from scheduler_core.kube.requests import JSON
from scheduler_core.kube.response import ANY_SIZE
from scheduler_core.kube.session import Credentials, Limits, Session
from scheduler_core.kube.stream import Stream

USER_AGENT: Final = "kubectl-muster"
_TRACE_LEVEL: Final = 6
_DAY_SECONDS: Final = 86_400.0
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")


def parse_timeout(text: str) -> float:
    """Seconds of kubectl's --request-timeout: a bare number of seconds, or `1h2m3s`.

    Raises click.BadParameter for anything else.
    """
    if re.fullmatch(r"\d{1,9}", text):
        return float(text)
    match = _DURATION.fullmatch(text)
    if not text or match is None or len(text) > 32:
        raise click.BadParameter(f"{text!r} is not a time like 10, 10s or 2m", param_hint="--request-timeout")
    hours, minutes, seconds = match.groups(default="0")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


@dataclass(frozen=True)
class _AsUid:
    """Credentials that also impersonate a uid."""

    inner: Credentials
    uid: str

    def headers(self) -> list[tuple[str, str]]:
        return [*self.inner.headers(), ("Impersonate-Uid", self.uid)]

    def certificate(self) -> ClientCertificate | None:
        return self.inner.certificate()

    def refresh(self) -> bool:
        return self.inner.refresh()


class TracedSession(Session):
    """Prints every request to stderr, as kubectl does from -v=6 on."""

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = JSON,
        most: int = ANY_SIZE,
    ) -> Answer:
        began = time.monotonic()
        answer = super().request(method, path, body, content_type, most)
        milliseconds = int((time.monotonic() - began) * 1000)
        print(f"{method} {self.endpoint.server}{path} {answer.status} in {milliseconds} ms", file=sys.stderr)
        return answer

    def stream(self, path: str, silence: float) -> Stream | Answer:
        print(f"GET {self.endpoint.server}{path}", file=sys.stderr)
        return super().stream(path, silence)


class CommandSession:
    """What a command needs of the cluster: a client, and the namespace that is meant."""

    def __init__(self, connection: Connection, *, all_namespaces: bool = False) -> None:
        self._connection = connection
        self.all_namespaces = all_namespaces

    @classmethod
    def of(cls, ctx: click.Context) -> CommandSession:
        """The session of the flags on this command line; it ends with the command."""
        session = cls(connection_of(ctx), all_namespaces=all_namespaces(ctx))
        ctx.call_on_close(session.close)
        return session

    @cached_property
    def _target(self) -> Target:
        given = self._connection
        if given.as_uid and not given.as_user:
            raise CommandFailed("--as-uid needs --as")
        check_segment("namespace", given.namespace or "")
        if given.as_uid and not (given.as_uid.isascii() and given.as_uid.isprintable()):
            raise CommandFailed("--as-uid holds characters that no HTTP header can carry")
        return resolve_target(
            Overrides(
                kubeconfig=given.kubeconfig or "",
                context=given.context or "",
                cluster=given.cluster or "",
                user=given.user or "",
                namespace=given.namespace or "",
                server=given.server or "",
                token=given.token or "",
                certificate_authority=given.certificate_authority or "",
                insecure=given.insecure,
                tls_server_name=given.tls_server_name or "",
                impersonate=given.as_user or "",
                impersonate_groups=given.as_groups,
            )
        )

    @cached_property
    def client(self) -> Client:
        """The client; nothing is sent before its first call. Raises KubeconfigError."""
        target, given = self._target, self._connection
        credentials = _AsUid(target.credentials, given.as_uid) if given.as_uid else target.credentials
        limits = Limits()
        if given.request_timeout is not None:
            limits = Limits(read=parse_timeout(given.request_timeout) or _DAY_SECONDS)
        kind = TracedSession if given.verbosity >= _TRACE_LEVEL else Session
        return Client(kind(target.endpoint, credentials, user_agent=USER_AGENT, limits=limits))

    def close(self) -> None:
        """Close the connections, if there are any."""
        if "client" in vars(self):
            self.client.session.close()

    @property
    def namespace(self) -> str:
        """The namespace that was given, or that of the context, or `default`."""
        return self._target.namespace

    @property
    def scope(self) -> str:
        """The namespace to look at; empty for all of them (-A)."""
        return "" if self.all_namespaces else self.namespace
