"""kubectl's global flags, for every command of the plugins. kubectl does not pass its own flags to a plugin.

A flag may precede or follow the subcommand; the last value counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_KEY: Final = "kubectl_plugin.flags"


@dataclass(frozen=True)
class ConnectionFlags:
    """The global flags that select cluster, user and connection. None: the flag was not given."""

    kubeconfig: str | None = None
    context: str | None = None
    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None
    as_user: str | None = None
    as_uid: str | None = None
    as_groups: tuple[str, ...] = ()
    token: str | None = None
    server: str | None = None
    certificate_authority: str | None = None
    insecure: bool = False
    tls_server_name: str | None = None
    request_timeout: str | None = None
    verbosity: int = 0


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value not in (None, False, ()):
        ctx.meta.setdefault(_KEY, {})[param.name] = value


def _flag(*names: str, **settings: Any) -> Callable[[F], F]:
    return click.option(*names, expose_value=False, callback=_remember, **settings)


_FLAGS: Final = (
    _flag("--kubeconfig", metavar="FILE", help="Path to the kubeconfig file; overrides $KUBECONFIG."),
    _flag("--context", metavar="NAME", help="Context of the kubeconfig to use."),
    _flag("--cluster", metavar="NAME", help="Cluster of the kubeconfig to use."),
    _flag("--user", metavar="NAME", help="User of the kubeconfig to use."),
    _flag("-n", "--namespace", metavar="NAME", help="Namespace; default: that of the context."),
    _flag("-A", "--all-namespaces", is_flag=True, help="All namespaces."),
    _flag("--as", "as_user", metavar="NAME", help="User to impersonate."),
    _flag("--as-group", "as_groups", metavar="NAME", multiple=True, help="Group to impersonate; repeatable."),
    _flag("--as-uid", metavar="UID", help="UID to impersonate."),
    _flag("--token", metavar="TOKEN", help="Bearer token to authenticate with."),
    _flag("-s", "--server", metavar="URL", help="Address of the API server."),
    _flag("--certificate-authority", metavar="FILE", help="CA certificates that verify the API server."),
    _flag(
        "--insecure-skip-tls-verify", "insecure", is_flag=True, help="Do not check the server's certificate."
    ),
    _flag("--tls-server-name", metavar="NAME", help="Name to expect in the server's certificate."),
    _flag("--request-timeout", metavar="TIME", help="Time limit of a request: 10, 10s, 2m; 0: no limit."),
    _flag("--cache-dir", metavar="DIR", help="Accepted for compatibility with kubectl; nothing is cached."),
    _flag(
        "-v",
        "--v",
        "verbosity",
        type=click.IntRange(0, 99),
        metavar="LEVEL",
        help="6 prints each request to stderr, 9 also the traceback of an internal error.",
    ),
)


def global_flags(command: F) -> F:
    """Add kubectl's global flags to a command; read them with `connection_of` and `all_namespaces`."""
    # click keeps the order in which flags are added to a command, and reverses it for a plain function.
    for flag in _FLAGS if isinstance(command, click.Command) else reversed(_FLAGS):
        command = flag(command)
    return command


topology_namespace: Final[Callable[[F], F]] = click.option(
    "--topology-namespace",
    default="",
    metavar="NAME",
    help="Namespace of the topology ConfigMap; default: any.",
)


def connection_of(ctx: click.Context) -> ConnectionFlags:
    """The global flags given anywhere on the command line."""
    given = dict(ctx.meta.get(_KEY, {}))
    given.pop("all_namespaces", None)
    given.pop("cache_dir", None)
    return ConnectionFlags(**given)


def all_namespaces(ctx: click.Context) -> bool:
    """Whether -A was given."""
    return bool(ctx.meta.get(_KEY, {}).get("all_namespaces", False))


def connection_arguments(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The given flags that `ConnectionFlags` takes as keyword arguments."""
    known = (
        "kubeconfig",
        "context",
        "cluster",
        "user",
        "namespace",
        "token",
        "server",
        "certificate_authority",
    )
    return {name: flags[name] for name in known if name in flags} | {
        "as_user": flags.get("as_user"),
        "insecure": bool(flags.get("insecure")),
        "tls_server_name": flags.get("tls_server_name"),
    }
