"""The connection of a command to the cluster, created from kubectl's flags on first use."""

from __future__ import annotations

import re
import sys
import time
from functools import cached_property
from typing import Any, Final

import click

from kubectl_plugin.cli.errors import check_segment
from kubectl_plugin.cli.global_flags import ConnectionFlags, all_namespaces, connection_of
from scheduler_core.kube.auth.users import Impersonation
from scheduler_core.kube.client import Client
from scheduler_core.kube.connect import Overrides, Target, resolve_target
from scheduler_core.kube.http.response_parser import ApiResponse
from scheduler_core.kube.http.session import Limits, Session
from scheduler_core.kube.http.stream import StreamWatcher
from scheduler_core.model.duration import parse_duration

USER_AGENT: Final = "kubectl-muster"
_TRACE_LEVEL: Final = 6
_DAY_SECONDS: Final = 86_400.0
_TIMEOUT: Final = re.compile(r"(\d+h)?(\d+m)?(\d+(\.\d+)?s)?")


def parse_timeout(text: str) -> float:
    """Seconds of kubectl's --request-timeout: a bare number of seconds, or `1h2m3s`.

    Raises click.BadParameter for anything else.
    """
    if re.fullmatch(r"\d{1,9}", text):
        return float(text)
    seconds = parse_duration(text) if _TIMEOUT.fullmatch(text) and len(text) <= 32 else None
    if seconds is None:
        raise click.BadParameter(f"{text!r} is not a time like 10, 10s or 2m", param_hint="--request-timeout")
    return seconds


class TracedSession(Session):
    """Prints every request to stderr, as kubectl does from -v=6 on."""

    def request(self, method: str, path: str, *args: Any, **kwargs: Any) -> ApiResponse:
        began = time.monotonic()
        answer = super().request(method, path, *args, **kwargs)
        milliseconds = int((time.monotonic() - began) * 1000)
        print(f"{method} {self.endpoint.server}{path} {answer.status} in {milliseconds} ms", file=sys.stderr)
        return answer

    def stream(self, path: str, silence: float) -> StreamWatcher | ApiResponse:
        print(f"GET {self.endpoint.server}{path}", file=sys.stderr)
        return super().stream(path, silence)


class CommandSession:
    """The API client and the namespace of a command."""

    def __init__(self, connection: ConnectionFlags, *, all_namespaces: bool = False) -> None:
        self._connection = connection
        self.all_namespaces = all_namespaces

    @classmethod
    def of(cls, ctx: click.Context) -> CommandSession:
        """A session from the flags of this command line; click closes it when the command ends."""
        session = cls(connection_of(ctx), all_namespaces=all_namespaces(ctx))
        ctx.call_on_close(session.close)
        return session

    @cached_property
    def _target(self) -> Target:
        given = self._connection
        check_segment("namespace", given.namespace or "")
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
                impersonate=Impersonation(given.as_user or "", given.as_uid or "", given.as_groups),
            )
        )

    @cached_property
    def client(self) -> Client:
        """The client; it connects with its first request. Raises KubeconfigError, CommandFailed."""
        target, given = self._target, self._connection
        limits = Limits()
        if given.request_timeout is not None:
            limits = Limits(read=parse_timeout(given.request_timeout) or _DAY_SECONDS)
        kind = TracedSession if given.verbosity >= _TRACE_LEVEL else Session
        return Client(kind(target.endpoint, target.credentials, user_agent=USER_AGENT, limits=limits))

    def close(self) -> None:
        """Close all connections."""
        if "client" in vars(self):
            self.client.session.close()

    @property
    def namespace(self) -> str:
        """The namespace of the flags, else of the context, else `default`."""
        return self._target.namespace

    @property
    def scope(self) -> str:
        """The namespace of lists; empty for all namespaces (-A)."""
        return "" if self.all_namespaces else self.namespace
