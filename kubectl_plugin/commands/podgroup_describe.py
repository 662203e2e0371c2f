"""`kubectl podgroup describe`: flags and help."""

from __future__ import annotations

import click

from kubectl_plugin.cli.errors import check_group
from kubectl_plugin.cli.global_flags import global_flags
from kubectl_plugin.commands.describe import check_names, describe_flags, print_descriptions


@click.command(name="describe")
@describe_flags
@global_flags
@click.pass_context
def describe(ctx: click.Context, /, names: tuple[str, ...], output: str) -> None:
    """Describe groups of every kind: state, reservation, topology, members, conditions and Events.

    Without a NAME, all of the namespace are described. Where groups of several dialects have the NAME, all of
    them are; native/NAME is one of them.

    \b
    Examples:
      kubectl podgroup describe
      kubectl podgroup describe training -n team-a
      kubectl podgroup describe native/training -o json
    """
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.group_status import read_quotas, read_reservations
    from kubectl_plugin.cluster.group_view import read_groups
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.commands.podgroup_status import facts
    from kubectl_plugin.inspection.group_description import describe_groups

    session, diagnostics = CommandSession.of(ctx), Diagnostics()
    check_names(session, names, check_group)
    view = read_groups(session.client, session.scope, diagnostics, whole=False)
    known = read_reservations(session.client, session.scope, view, diagnostics)
    read_quotas(session.client, session.scope, view, diagnostics)
    groups = [gang for name in names for gang in view.named(session.namespace, name)]
    found = describe_groups(
        session.client,
        view,
        groups if names else view.groups(),
        lambda status: facts(view, status, known=known),
        diagnostics,
    )
    print_descriptions(session, found, output, diagnostics)
