"""`kubectl elasticquota snapshot`: flags, help, and the cluster as a scenario file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click

from kubectl_plugin.cli.errors import CommandFailed
from kubectl_plugin.cli.global_flags import global_flags

_SHORTEST_KEY: Final = 16


@click.command(name="snapshot")
@click.option("--anonymize", is_flag=True, help="Replace all names; drop foreign annotations.")
@click.option("--key-file", default="", metavar="FILE", help="With --anonymize: the key of the names.")
@click.option("--config", default="", metavar="FILE", help="The scheduler's configuration.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="Format.")
@global_flags
@click.pass_context
def snapshot(ctx: click.Context, /, output: str, **flags: Any) -> None:
    """Print the cluster as a scenario file, which `simulate` plays without a cluster.

    It has what the scheduler decides by: nodes, pods, quotas, groups, budgets, priority classes, topology,
    metrics and the configuration; no environments, commands and Secrets. With -n NAMESPACE the other
    namespaces appear as sums. With --anonymize, every word that is not one of Kubernetes is a pseudonym.

    \b
    Examples:
      kubectl elasticquota snapshot > cluster.yaml
      kubectl elasticquota snapshot --anonymize > report.yaml
      kubectl elasticquota snapshot -n team-a > mine.yaml
    """
    from kubectl_plugin.cli.global_flags import connection_of
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.live.live_world import read_world
    from kubectl_plugin.render.structured import encoded
    from scheduler_core.answers.snapshot.document import SnapshotOptions, head_comment, scenario_document

    if flags["key_file"] and not flags["anonymize"]:
        raise click.UsageError("--key-file needs --anonymize.")
    key = _key(flags["key_file"]) if flags["anonymize"] else b""
    session, diagnostics = CommandSession.of(ctx), Diagnostics()
    namespace = "" if session.all_namespaces else connection_of(ctx).namespace or ""
    live = read_world(session.client, session.namespace, diagnostics.note, config=flags["config"])
    for missing in live.unread:
        diagnostics.note(f"note: you may not list {missing}: the snapshot is without them")
    for error in live.skipped:
        diagnostics.note(f"note: {error}: left out, as the scheduler leaves it out")
    if key and not flags["key_file"]:
        diagnostics.note("note: the pseudonyms are random, other snapshots have other ones (see --key-file)")
    options = SnapshotOptions(namespace, key)
    document = scenario_document(live.world.base, live.config.text, options)
    if output == "yaml":
        sys.stdout.write(head_comment(live.unread, options))
    sys.stdout.write(encoded(document, output))


def _key(file: str) -> bytes:
    """The key of the pseudonyms: that of the file, else a new one that nobody keeps."""
    if not file:
        import secrets

        return secrets.token_bytes(32)
    try:
        key = Path(file).read_bytes()
    except OSError as error:
        raise CommandFailed(f"{file}: {(error.strerror or str(error)).lower()}") from None
    if len(key) < _SHORTEST_KEY:
        raise CommandFailed(f"{file}: has {len(key)} bytes; a key needs {_SHORTEST_KEY} or more")
    return key
