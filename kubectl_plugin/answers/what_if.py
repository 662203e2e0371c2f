"""`kubectl elasticquota what-if`: flags, help, and the differences that changes would make."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kubectl_plugin.cli.global_flags import global_flags
from kubectl_plugin.cli.in_order import InOrder, in_order
from scheduler_core.model.printable import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler_core.answers.draft import Draft


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


def suppose(draft: Draft, namespace: str, options: Sequence[tuple[str, Any]]) -> None:
    """Add the changes of options to a draft, in their order. Raises ConfigError, CommandFailed, UsageError.

    Bounds are checked at the end, as several may be legal only together.
    """
    from kubectl_plugin.live.manifests import put_manifests
    from scheduler_core.answers.owners import scale
    from scheduler_core.answers.suppositions import add_nodes, delete, drain

    checks: list[Callable[[], None]] = []
    like = next((str(text) for name, text in options if name == "like"), "")
    for name, text in options:
        match name:
            case "files":
                put_manifests(draft, [text], namespace)
            case "bounds":
                checks.append(_set(draft, namespace, text))
            case "add_nodes":
                add_nodes(draft, int(text), like)
            case "drain":
                drain(draft, text)
            case "gone":
                delete(draft, *_placed("--delete", text, namespace))
            case "scale":
                owner, equals, count = text.rpartition("=")
                if not equals or not count.isdigit():
                    raise click.UsageError(f"--scale {text}: must have the form KIND/NAME=NUMBER.")
                scale(draft, *_placed("--scale", owner, namespace), int(count))
    for check in checks:
        check()


def _placed(option: str, text: str, namespace: str) -> tuple[str, str, str]:
    """Kind, namespace and name of `KIND/NAME` or `KIND/NAMESPACE/NAME`."""
    from kubectl_plugin.live.references import reference

    parts = text.split("/")
    if len(parts) not in (2, 3):
        raise click.UsageError(f"{option} {text}: must have the form KIND/NAME or KIND/NAMESPACE/NAME.")
    kind, name = reference([f"{parts[0]}/{parts[-1]}"])
    place = parts[1] if len(parts) == 3 else namespace
    return kind, "" if kind == "Node" else place, name


def _set(draft: Draft, namespace: str, text: str) -> Callable[[], None]:
    """Apply `quota/NAMESPACE:max.RESOURCE=AMOUNT` or `resourcequota/NAME:hard.RESOURCE=AMOUNT`.

    Returns the check of the changed object.
    """
    from kubectl_plugin.live.references import kind_of
    from scheduler_core.answers.suppositions import check_bounds_of, check_hard_of, put_bound, put_hard

    place, equals, amount = text.partition("=")
    owner, _, field = place.partition(":")
    word, *names = owner.split("/")
    bound, _, resource = field.partition(".")
    if not (equals and names and all(names) and len(names) < 3 and bound and resource and amount):
        raise click.UsageError(f"--set {text}: must have the form quota/NAMESPACE:max.RESOURCE=AMOUNT.")
    kind = kind_of(word)
    if kind == "ElasticQuota":
        where = _quota_namespace(draft, namespace, names)
        path = put_bound(draft, where, bound, resource, amount)
        return lambda: check_bounds_of(draft, where, path)
    if kind == "ResourceQuota" and bound == "hard":
        where, name = names if len(names) == 2 else (namespace, names[0])
        path = put_hard(draft, where, name, resource, amount)
        return lambda: check_hard_of(draft, where, name, path)
    raise click.UsageError(
        f"--set {text}: sets max or min of quota/NAMESPACE, or hard of resourcequota/NAME."
    )


def _quota_namespace(draft: Draft, namespace: str, names: list[str]) -> str:
    """The namespace of the quota that a reference names: its namespace, or its name in `namespace`."""
    from scheduler_core.errors import ConfigError

    where = names[0]
    if len(names) == 1 and draft.quota_of(where) is None and _is_named(draft, namespace, where):
        return namespace
    if len(names) == 2 and not _is_named(draft, where, names[1]):
        raise ConfigError(f"quota/{where}/{names[1]}", "no quota of this name binds in this namespace")
    return where


def _is_named(draft: Draft, namespace: str, name: str) -> bool:
    obj = draft.quota_of(namespace)
    return obj is not None and bool(obj["metadata"]["name"] == name)


def _two_profiles(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if text and len(names) != 2:
        raise click.UsageError(f"--compare-profiles {text}: must be the names of two profiles, as A,B.")
    return names
