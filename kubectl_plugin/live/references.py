"""References to objects on a command line: `pod/NAME`, `job/NAME`, `pod NAME`, or a name alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubectl_plugin.cli.errors import CommandFailed, check_segment
from scheduler_core.model.groups.gang import DIALECT_NAMES

_POD_GROUP: Final = "PodGroup"
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

    The name of a PodGroup may begin with its dialect: `podgroup/native/train`, or `native/train` where that
    is the `usual` kind. Raises CommandFailed.
    """
    if len(words) == 2 and "/" not in words[0] + words[1]:
        kind, name = words
    elif len(words) == 1:
        kind, slash, name = words[0].partition("/")
        if not slash or (usual == _POD_GROUP and _dialect(words[0])):
            kind, name = usual, words[0]
    else:
        raise CommandFailed(f"{' '.join(words)!r} is not one object such as pod/NAME or job/NAME")
    if not kind or not name:
        raise CommandFailed(f"{' '.join(words)!r} is not of the form KIND/NAME")
    found = kind_of(kind)
    check_segment("name", name.removeprefix(_dialect(name)) if found == _POD_GROUP else name)
    return found, name


def _dialect(name: str) -> str:
    """`native/` of `native/train`; empty without a dialect."""
    first, slash, _ = name.partition("/")
    return first + slash if first in DIALECT_NAMES.values() else ""


def kind_of(word: str) -> str:
    """The kind that a word of a command line means."""
    bare = word.partition(".")[0].lower()
    return _ALIASES.get(bare) or _ALIASES.get(bare.removesuffix("s")) or _titled(word, bare.removesuffix("s"))


def _titled(word: str, bare: str) -> str:
    return word if word != word.lower() else bare
