"""Pods of a live cluster: while they are resized, they count as in the version of its server."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from scheduler_core.kube.server_version import ServerRule, VersionClient, resize_rule
from scheduler_core.kube.watch.reading import ObjectReader, plain_reader
from scheduler_core.model.pods.pod import Pod, parse_pod


def pod_parser(client: VersionClient) -> Callable[[msgspec.Raw | bytes], Pod]:
    """`parse_pod` for the pods of one list; asks the server for its version."""
    return partial(parse_pod, rule=resize_rule(client))


def pod_reader(client: VersionClient) -> ObjectReader:
    """The reader of a watch of pods, which follows the version of the server."""
    rule = ServerRule(client)
    return plain_reader(lambda raw: parse_pod(raw, rule()), rule.followed())
