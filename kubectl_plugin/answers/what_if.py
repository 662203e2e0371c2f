"""`kubectl elasticquota what-if`: flags, help, and the differences that changes would make."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kubectl_plugin.cli.global_flags import global_flags
from kubectl_plugin.cli.in_order import InOrder, in_order
from scheduler_core.model.printable import visible

if TYPE_CHECKING:
    pass


@click.command(name="what-if", cls=InOrder)
@click.option(
    "--set",
    "bounds",
    multiple=True,
    metavar="quota/NS:max.RES=AMOUNT",
    help="Another min or max of the quota of a namespace, or hard of a ResourceQuota; repeatable.",
)
@click.option("--add-nodes", type=int, default=0, metavar="N", help="New nodes; needs --like.")
@click.option("--like", default="", metavar="NODE", help="The node that new nodes are like.")
@click.option("--drain", multiple=True, metavar="NODE", help="A node that is drained; repeatable.")
@click.option("--delete", "gone", multiple=True, metavar="KIND/NAME", help="An object that goes; repeatable.")
@click.option("--scale", multiple=True, metavar="KIND/NAME=N", help="An owner with so many pods; repeatable.")
@click.option("-f", "--filename", "files", multiple=True, metavar="FILE", help="Manifests; repeatable.")
@click.option("--config", default="", metavar="FILE", help="Another configuration of the scheduler.")
@click.option(
    "--compare-profiles", "profiles", default="", metavar="A,B", help="Waiting pods under profile A, then B."
)
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", help="Format.")
@global_flags
@click.pass_context
def what_if(ctx: click.Context, /, output: str, **flags: Any) -> None:
    """Run the scheduler on a copy of the cluster, as it is and with changes, and show the differences.

    Nothing is written to the cluster. Changes combine, each on top of those that are written before it.
    quota/NS is the quota of a namespace, quota/NS/NAME the same with its name; quota/NAME is one of -n.
    A drained node loses its pods at once, whatever their disruption budgets say. Owners of pods in manifests
    come with the pods that their controllers would make.

    \b
    Examples:
      kubectl elasticquota what-if --set quota/team-a:max.nvidia.com/gpu=32
      kubectl elasticquota what-if --add-nodes 2 --like gpu-node-1 -f job.yaml
      kubectl elasticquota what-if --drain gpu-node-1 --delete pod/old -n team-a
      kubectl elasticquota what-if --scale job/train=8 -n team-a -o json
      kubectl elasticquota what-if --config new-scheduler.yaml
      kubectl elasticquota what-if --compare-profiles muster-scheduler,packed
    """
    import msgspec

    from kubectl_plugin.answers.what_if_text import lines
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.live.configuration import config_of_file
    from kubectl_plugin.live.live_world import read_world
    from kubectl_plugin.live.suppositions import suppose
    from kubectl_plugin.render.structured import encoded
    from scheduler_core.answers.draft import Draft
    from scheduler_core.answers.profiles import with_profile
    from scheduler_core.answers.what_if import compare

    if bool(flags["add_nodes"]) != bool(flags["like"]):
        raise click.UsageError("--add-nodes and --like belong together.")
    names = _two_profiles(flags["profiles"])
    session, diagnostics = CommandSession.of(ctx), Diagnostics()
    live = read_world(session.client, session.namespace, diagnostics.note)
    for name in live.unread:
        diagnostics.note(f"note: you may not list {name}: what depends on them is not known")
    draft = Draft(live.world.base)
    suppose(draft, session.namespace, in_order(ctx))
    changes = draft.changes()
    if flags["config"]:
        other = config_of_file(flags["config"])
        told = (*changes.texts, f"the configuration is that of {other.source}")
        changes = msgspec.structs.replace(changes, config=other.config, texts=told)
    if names:
        first, second = names
        before = with_profile(live.world.base, changes, first)
        after = with_profile(live.world.base, changes, second, instead=first)
        found = compare(live.world, after, before, live.blind)
    else:
        found = compare(live.world, changes, unread=live.blind)
    if output != "text":
        sys.stdout.write(encoded(msgspec.to_builtins(found), output))
        return
    for line in lines(found):
        print(visible(line))


def _two_profiles(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if text and len(names) != 2:
        raise click.UsageError(f"--compare-profiles {text}: must be the names of two profiles, as A,B.")
    return names
