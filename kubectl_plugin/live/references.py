"""References to objects on a command line: `pod/NAME`, `job/NAME`, `pod NAME`, or a name alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubectl_plugin.cli.errors import CommandFailed, check_segment

_ALIASES: Final = {
    "po": "Pod",
    "pods": "Pod",
    "pod": "Pod",
    "pg": "PodGroup",
    "podgroups": "PodGroup",
    "podgroup": "PodGroup",
    "no": "Node",
    "nodes": "Node",
    "node": "Node",
    "eq": "ElasticQuota",
    "quota": "ElasticQuota",
    "elasticquota": "ElasticQuota",
    "elasticquotas": "ElasticQuota",
    "resourcequota": "ResourceQuota",
    "job": "Job",
    "cronjob": "CronJob",
    "jobset": "JobSet",
    "deployment": "Deployment",
    "statefulset": "StatefulSet",
    "replicaset": "ReplicaSet",
    "daemonset": "DaemonSet",
    "replicationcontroller": "ReplicationController",
    "deploy": "Deployment",
    "sts": "StatefulSet",
    "rs": "ReplicaSet",
    "ds": "DaemonSet",
}


def reference(words: Sequence[str], usual: str = "Pod") -> tuple[str, str]:
    """(kind, name) of one object. A kind that is not known here stays as it is written, without a plural s.

    Raises CommandFailed.
    """
    if len(words) == 2 and "/" not in words[0] + words[1]:
        kind, name = words
    elif len(words) == 1:
        kind, slash, name = words[0].partition("/")
        if not slash:
            kind, name = usual, kind
    else:
        raise CommandFailed(f"{' '.join(words)!r} is not one object such as pod/NAME or job/NAME")
    if not kind or not name:
        raise CommandFailed(f"{' '.join(words)!r} is not of the form KIND/NAME")
    check_segment("name", name)
    return kind_of(kind), name


def kind_of(word: str) -> str:
    """The kind that a word of a command line means."""
    bare = word.partition(".")[0].lower()
    return _ALIASES.get(bare) or _ALIASES.get(bare.removesuffix("s")) or _titled(word, bare.removesuffix("s"))


def _titled(word: str, bare: str) -> str:
    return word if word != word.lower() else bare
