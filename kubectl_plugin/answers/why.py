"""`kubectl elasticquota why`: flags, help, and the answer as text, JSON or YAML."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from kubectl_plugin.cli.global_flags import global_flags
from scheduler_core.model.printable import visible

# How long changes are looked for; the checks are printed before.
_SEARCH_SECONDS: Final = 15.0

if TYPE_CHECKING:
    from kubectl_plugin.live.live_world import LiveWorld
    from scheduler_core.answers.fixes.answer import WhyAnswer
    from scheduler_core.answers.why.subject import Subject


@click.command(name="why")
@click.argument("object", nargs=-1, metavar="KIND/NAME")
@click.option("-f", "--filename", "files", multiple=True, metavar="FILE", help="Manifests of new work.")
@click.option("--fixes/--no-fixes", default=True, help="Whether to look for changes that start the work.")
@click.option("--config", default="", metavar="FILE", help="The scheduler's configuration.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", help="Format.")
@global_flags
@click.pass_context
def why(ctx: click.Context, /, object: tuple[str, ...], output: str, **flags: Any) -> None:
    """Explain why work waits, check by check, and name the smallest changes that would start it.

    KIND is pod, podgroup, or the owner of pods: job, deployment and so on. With -f the work need not exist.
    The scheduler runs on a copy of the cluster; nothing is written. Every change that is named was tried on
    such a copy: the work starts with it, and not with one step less.

    \b
    Examples:
      kubectl elasticquota why podgroup/train -n team-a
      kubectl elasticquota why job/train --no-fixes
      kubectl elasticquota why -f job.yaml
      kubectl elasticquota why pod/worker-0 -o json
    """
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.dropped_groups import dropped_groups
    from kubectl_plugin.cluster.group_view import note_others
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.live.live_world import read_world
    from kubectl_plugin.live.references import reference
    from scheduler_core.answers.why.subject import POD_GROUP, groups_named, raw_pods, subject_of

    if bool(object) == bool(flags["files"]):
        raise click.UsageError("name what waits, for example pod/NAME or podgroup/NAME, or give -f FILE.")
    session, diagnostics = CommandSession.of(ctx), Diagnostics()
    named = reference(object) if object else None
    live = read_world(session.client, session.namespace, diagnostics.note, config=flags["config"])
    for missing in live.unread:
        diagnostics.note(f"note: you may not list {missing}: what depends on them is not known")
    if named is not None:
        kind, name = named
        subjects = [subject_of(live.world.base, kind, session.namespace, name)]
        if kind == POD_GROUP:
            note_others(groups_named(live.world.base, session.namespace, name), diagnostics)
        for dropped in dropped_groups(session.client, raw_pods(live.world.base, subjects)):
            diagnostics.note(f"note: {dropped}")
    else:
        live, subjects = supposed(live, flags["files"], session.namespace)
    explain(session, live, subjects, output, fixes=flags["fixes"])


def supposed(live: LiveWorld, files: Sequence[str], namespace: str) -> tuple[LiveWorld, list[Subject]]:
    """The cluster with the objects of manifests, and the work in them."""
    import msgspec

    from kubectl_plugin.cli.errors import CommandFailed
    from kubectl_plugin.live.forked_world import world_of
    from kubectl_plugin.live.manifests import put_manifests
    from scheduler_core.answers.draft import Draft
    from scheduler_core.answers.why.subject import work_in

    base = live.world.base
    draft = Draft(base)
    objects = put_manifests(draft, files, namespace)
    draft.changes().apply(base)
    subjects = work_in(base, objects)
    if not subjects:
        raise CommandFailed(f"{', '.join(files)}: there is no pod, group or owner of pods in it")
    return msgspec.structs.replace(live, world=world_of(base)), subjects


def explain(session: Any, live: LiveWorld, subjects: Sequence[Subject], output: str, *, fixes: bool) -> None:
    """Print the answers for some subjects; as text, the checks before the changes are looked for."""
    from kubectl_plugin.answers.why_text import fix_lines, ladder_lines
    from kubectl_plugin.live.attempts import failed_attempts
    from scheduler_core.answers.fixes.answer import WhyAnswer, answer_of
    from scheduler_core.answers.why.answer import why as ask_why

    answers: list[WhyAnswer] = []
    for subject in subjects:
        waits = ask_why(live.world, subject, live.blind)
        tried = failed_attempts(session.client, subject.namespace, subject.waiting)
        if output == "text":
            for line in ladder_lines(waits, tried, time.time()):
                print(visible(line))
            sys.stdout.flush()
        answer = WhyAnswer(waits, tried=tried)
        if fixes:
            over = time.monotonic() + _SEARCH_SECONDS
            answer = answer_of(live.world, waits, tried, partial(_is_over, over))
        answers.append(answer)
        if output == "text" and fixes:
            for line in fix_lines(answer):
                print(visible(line))
    if output != "text":
        import msgspec

        from kubectl_plugin.render.structured import encoded

        found = [msgspec.to_builtins(answer) for answer in answers]
        sys.stdout.write(encoded(found[0] if len(found) == 1 else {"answers": found}, output))


def _is_over(end: float) -> bool:
    return time.monotonic() > end
