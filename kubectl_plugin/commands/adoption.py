"""The run of `adopt`: carries out the plan that brings pods back from another scheduler."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from kubectl_plugin.cli.adopt_flags import AdoptOptions, DryRun
from kubectl_plugin.cli.errors import AlreadyReported, CommandFailed, check_segment, describe
from kubectl_plugin.cluster.session import CommandSession
from kubectl_plugin.commands.adoption_plan import AdoptionStep, plan
from kubectl_plugin.render.structured import listed, to_json
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound, Unreachable
from scheduler_core.model.kinds import PODS
from scheduler_core.model.pods.adoption import joining, release
from scheduler_core.model.printable import visible
from scheduler_core.model.writes import Create, Delete, Patch
from scheduler_core.printing.counts import counted

CREATE_SECONDS: Final = 30.0
PAUSE_SECONDS: Final = 0.3
_SUFFIX: Final = {"none": "", "client": " (dry run)", "server": " (server dry run)"}


def run_adopt(ctx: click.Context, group: str | None, options: AdoptOptions) -> None:
    """Carry out the command. Raises the ApiError tree, KubeconfigError, CommandFailed, AlreadyReported."""
    check_segment("group", group or "")
    session = CommandSession.of(ctx)
    steps = plan(session.client, session.scope if group is None else session.namespace, group)
    for step in [step for step in steps if step.action == "none"]:
        job = f"job/{step.controller.name}"
        _say(f"{_pod(step)} is not changed: {job} has its own selector and would adopt the pod again")
    steps = [step for step in steps if step.action != "none"]
    if not steps:
        _say("No pods to bring back: the API server would assign no pod of the default scheduler to Muster.")
        return
    if options.dry_run == "client":
        for step in steps:
            _print(step, "client")
        return
    if options.dry_run == "none" and not options.yes:
        for step in steps:
            _say(f"{_pod(step)} {_done(step)}")
        click.confirm(f"Change {counted(len(steps), 'pod')}?", abort=True, err=True)
    carry_out(session.client, steps, dry_run=options.dry_run == "server")


def carry_out(client: Client, steps: Sequence[AdoptionStep], *, dry_run: bool) -> None:
    """Carry out all steps. A failure is printed and does not stop the others. Raises AlreadyReported.

    Pods without a controller are written to a file before the first of them is deleted. The file is removed
    once all are recreated; until then `kubectl create -f` of the file recreates them.
    """
    bare = [step.manifest() for step in steps if step.action == "create"]
    backup = "" if dry_run or not bare else _back_up(bare)
    failed: list[AdoptionStep] = []
    for step in steps:
        try:
            _carry_out(client, step, dry_run=dry_run)
        except (ApiError, CommandFailed) as error:
            failed.append(step)
            _say(f"{_pod(step)}: {describe(error) if isinstance(error, ApiError) else error}")
        else:
            _print(step, "server" if dry_run else "none")
    if backup and not any(step.action == "create" for step in failed):
        os.unlink(backup)
    elif backup:
        _say(f"to create the missing pods, run: kubectl create -f {backup}")
    if failed:
        raise AlreadyReported


def _carry_out(client: Client, step: AdoptionStep, *, dry_run: bool) -> None:
    """Raises ApiError and CommandFailed. Every write has the uid and resourceVersion of the planned pod."""
    metadata = step.pod["metadata"]
    uid, version = str(metadata["uid"]), str(metadata["resourceVersion"])
    where = (PODS, step.namespace, step.name)
    if step.action == "joins":
        patch = Patch(*where, joining(step.group), uid=uid, resource_version=version)
        client.write(patch, dry_run=dry_run)
        return
    if step.action == "release":
        patch = Patch(*where, release(step.group), uid=uid, resource_version=version)
        client.write(patch, dry_run=dry_run)
    if step.action in ("release", "released") and not dry_run:
        # The Job creates another pod, so this one must be deleted in any version.
        version = ""
    try:
        client.write(Delete(*where, uid=uid, resource_version=version), dry_run=dry_run)
    except NotFound:
        if step.action == "create":
            # Somebody else deleted the pod; do not recreate it.
            raise
    except ApiError as error:
        if not error.maybe_accepted or _exists(client, step, uid):
            raise
    if step.action == "create" and not dry_run:
        _create(client, step, uid)


def _create(
    client: Client,
    step: AdoptionStep,
    old: str,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Create the pod, with retries: the old pod may still exist, and a quota may still count it.

    Raises the last ApiError after CREATE_SECONDS, and CommandFailed if another pod has the name.
    """
    deadline = monotonic() + CREATE_SECONDS
    create = Create(PODS, step.namespace, step.manifest())
    while True:
        try:
            client.create(create)
            return
        except AlreadyExists as error:
            problem: ApiError = error
            if _is_there(client, step, old):
                return
        except (Forbidden, Unreachable) as error:
            problem = error
        except ApiError as error:
            if error.status < 500 and error.status != 429:
                raise
            problem = error
        if monotonic() >= deadline:
            raise problem
        sleep(PAUSE_SECONDS)


def _is_there(client: Client, step: AdoptionStep, old: str) -> bool:
    """Whether the new pod exists although its creation failed. Raises CommandFailed for another pod."""
    try:
        found = client.get_json(PODS, step.namespace, step.name)
    except NotFound:
        return False
    if found["metadata"]["uid"] == old:
        return False
    if found["spec"].get("schedulerName") != step.scheduler:
        raise CommandFailed("another pod with its name was created meanwhile")
    return True


def _exists(client: Client, step: AdoptionStep, uid: str) -> bool:
    """Whether the old pod still exists."""
    try:
        return bool(client.get_json(PODS, step.namespace, step.name)["metadata"]["uid"] == uid)
    except NotFound:
        return False


def _back_up(manifests: Sequence[dict[str, Any]]) -> str:
    """Write the pods to a private file. Returns its path."""
    handle, path = tempfile.mkstemp(prefix="muster-adopt-", suffix=".json")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(to_json(listed(manifests)))
        file.flush()
        os.fsync(handle)
    _say(f"{counted(len(manifests), 'pod')} without a controller saved to {path} until recreated")
    return path


def _pod(step: AdoptionStep) -> str:
    return f"pod/{step.name} -n {step.namespace}"


def _done(step: AdoptionStep) -> str:
    owner = f"{step.controller.kind.lower()}/{step.controller.name}"
    match step.action:
        case "joins":
            return f"joined PodGroup {step.group}: the pod has a node and counts as a member"
        case "create":
            return f"recreated for scheduler {step.scheduler}"
        case "released":
            return "deleted: its job has created another pod"
        case _:
            return f"deleted: {owner} creates another pod"


def _print(step: AdoptionStep, dry_run: DryRun) -> None:
    print(visible(f"{_pod(step)} {_done(step)}{_SUFFIX[dry_run]}"), flush=True)


def _say(text: str) -> None:
    print(visible(text), file=sys.stderr)
