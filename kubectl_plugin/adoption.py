"""`adopt`: pods that went to another scheduler are offered back to Muster."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import click

from kubectl_plugin.adoption_plan import Step, plan
from kubectl_plugin.entry import AlreadyReported, CommandFailed, check_segment
from kubectl_plugin.failures import describe
from kubectl_plugin.session import CommandSession
from kubectl_plugin.structured import listed, to_json
from kubectl_plugin.table import visible
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound, Unreachable
from scheduler_core.model.adoption import joining, release
from scheduler_core.model.kinds import PODS
from scheduler_core.model.writes import Create, Delete, Patch

DryRun = Literal["none", "client", "server"]
CREATE_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.3
_SUFFIX: Final = {"none": "", "client": " (dry run)", "server": " (server dry run)"}


@dataclass(frozen=True)
class AdoptOptions:
    """The flags of the command."""

    dry_run: DryRun
    yes: bool


def run_adopt(ctx: click.Context, group: str | None, options: AdoptOptions) -> None:
    """Carry out the command. Raises the ApiError tree, KubeconfigError, CommandFailed, AlreadyReported."""
    check_segment("group", group or "")
    session = CommandSession.of(ctx)
    steps = plan(session.client, session.scope if group is None else session.namespace, group)
    for step in [step for step in steps if step.action == "none"]:
        job = f"job/{step.controller.name}"
        _say(f"{_pod(step)} is left alone: {job} has a selector of its own, and would take it back")
    steps = [step for step in steps if step.action != "none"]
    if not steps:
        _say(
            "Nothing to bring back: of the default scheduler's pods the API server sends none to Muster now."
        )
        return
    if options.dry_run == "client":
        for step in steps:
            _print(step, "client")
        return
    if options.dry_run == "none" and not options.yes:
        for step in steps:
            _say(f"{_pod(step)} {_done(step)}")
        click.confirm(f"Do this to {len(steps)} pods?", abort=True, err=True)
    carry_out(session.client, steps, dry_run=options.dry_run == "server")


def carry_out(client: Client, steps: Sequence[Step], *, dry_run: bool) -> None:
    """Do all of them; what fails is told and does not stop the rest. Raises AlreadyReported.

    Pods that nobody else would make again are written to a file before the first is deleted, and the file
    stays until all are there: whatever happens in between, `kubectl create -f` brings them back.
    """
    bare = [step.manifest() for step in steps if step.action == "create"]
    kept = "" if dry_run or not bare else _keep(bare)
    failed: list[Step] = []
    for step in steps:
        try:
            _carry_out(client, step, dry_run=dry_run)
        except ApiError as error:
            failed.append(step)
            _say(f"{_pod(step)}: {describe(error)}")
            continue
        except CommandFailed as error:
            failed.append(step)
            _say(f"{_pod(step)}: {error}")
            continue
        _print(step, "server" if dry_run else "none")
    if kept and not any(step.action == "create" for step in failed):
        os.unlink(kept)
    elif kept:
        _say(f"pods that are missing now can be created with: kubectl create -f {kept}")
    if failed:
        raise AlreadyReported


def _carry_out(client: Client, step: Step, *, dry_run: bool) -> None:
    """Raises ApiError and CommandFailed. Every write names the version that it was decided on."""
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
        # Its Job makes another one: this one must go, in whatever version.
        version = ""
    try:
        client.write(Delete(*where, uid=uid, resource_version=version), dry_run=dry_run)
    except NotFound:
        if step.action == "create":
            # Somebody else deleted it, and meant it.
            raise
    except ApiError as error:
        if not error.maybe_accepted or _exists(client, step, uid):
            raise
    if step.action == "create" and not dry_run:
        _create(client, step, uid)


def _create(
    client: Client,
    step: Step,
    old: str,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Create the pod anew, as often as it takes: the old one may linger, and a quota be behind.

    Raises the last ApiError once CREATE_SECONDS are over, CommandFailed where another pod took the name.
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
        sleep(_PAUSE_SECONDS)


def _is_there(client: Client, step: Step, old: str) -> bool:
    """Whether the new pod exists: the answer to its creation was lost. Raises CommandFailed."""
    try:
        found = client.get_json(PODS, step.namespace, step.name)
    except NotFound:
        return False
    if found["metadata"]["uid"] == old:
        return False
    if found["spec"].get("schedulerName") != step.scheduler:
        raise CommandFailed("another pod has taken its name meanwhile")
    return True


def _exists(client: Client, step: Step, uid: str) -> bool:
    """Whether the old pod is still there."""
    try:
        return bool(client.get_json(PODS, step.namespace, step.name)["metadata"]["uid"] == uid)
    except NotFound:
        return False


def _keep(manifests: Sequence[dict[str, Any]]) -> str:
    """A private file with the pods."""
    handle, path = tempfile.mkstemp(prefix="muster-adopt-", suffix=".json")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(to_json(listed(manifests)))
        file.flush()
        os.fsync(handle)
    _say(f"{len(manifests)} pods that no controller makes again are kept in {path} until they are back")
    return path


def _pod(step: Step) -> str:
    return f"pod/{step.name} -n {step.namespace}"


def _done(step: Step) -> str:
    owner = f"{step.controller.kind.lower()}/{step.controller.name}"
    match step.action:
        case "joins":
            return f"joined PodGroup {step.group}: it has a node, and counts"
        case "create":
            return f"created anew for {step.scheduler}"
        case "released":
            return "deleted: its job has made another"
        case _:
            return f"deleted: {owner} makes another"


def _print(step: Step, dry_run: DryRun) -> None:
    print(visible(f"{_pod(step)} {_done(step)}{_SUFFIX[dry_run]}"), flush=True)


def _say(text: str) -> None:
    print(visible(text), file=sys.stderr)
