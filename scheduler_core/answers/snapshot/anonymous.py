"""Renames everything that people have named, so that a snapshot tells nothing but sizes and relations.

Every word of every text is replaced, in values and in the keys of labels, unless it is one of Kubernetes or
Muster (`words.py`). A word gets the same pseudonym wherever it occurs, also within a text such as
`namespace/name` or JSON, so that selectors, owners, groups and topologies still meet. Pseudonyms have the
order of the words, with node-2 before node-10, so that most ties between names fall as before.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from scheduler_core.answers.doctor.keys import KNOWN
from scheduler_core.answers.snapshot.words import COMMON_KEYS, is_common
from scheduler_core.model import names, older_texts
from scheduler_core.topology.tree import name_key

Object = dict[str, Any]

_KEYS: Final = "|".join(re.escape(key) for key in sorted(COMMON_KEYS, reverse=True) if "/" in key)
# The parts of a text that get a pseudonym each; a well-known key is one part.
_WORD: Final = re.compile(rf"(?:requests\.|limits\.)?(?:{_KEYS})(?![\w./-])|\w(?:[\w.-]*\w)?")
# The annotations that are kept.
_ANNOTATIONS: Final = KNOWN | COMMON_KEYS
# What stays before a name that is a part of a longer one.
_PREFIXES: Final = (names.GANG_BUDGET_PREFIX, names.REQUESTS_PREFIX, names.LIMITS_PREFIX, "sum-on-")
# Maps whose keys people choose; all other keys are fields.
_FREE: Final = frozenset(
    {
        *("labels", "annotations", "matchLabels", "nodeSelector", "data", "disruptedPods"),
        *("requests", "limits", "allocatable", "capacity", "hard", "used", "min", "max", "overhead"),
        *("resources", "usage", "spent", "held", "totalResources", "allocatedResources"),
    }
)


class Pseudonyms:
    """Pseudonyms for the words in some objects; `key` makes them different from those of other snapshots."""

    def __init__(self, objects: Iterable[Mapping[str, Any]], key: bytes, keep: Iterable[str] = ()) -> None:
        kept = frozenset(keep)
        words = {word for obj in objects for text in _texts(obj) for word in _words_of(text)}
        found = sorted(words - kept, key=name_key)
        width = len(str(len(found)))
        self._of = {
            word: f"x{number:0{width}}-{hmac.new(key, word.encode(), hashlib.sha256).hexdigest()[:6]}"
            for number, word in enumerate(found)
        }

    def text(self, text: str) -> str:
        """The text with a pseudonym for every word."""
        if is_common(text):
            return text
        return _WORD.sub(lambda match: self._word(match.group()), text)

    def join(self, first: str, second: str) -> None:
        """Let the pseudonym of `first-second` be that of its parts."""
        self._of[f"{first}-{second}"] = f"{self.text(first)}-{self.text(second)}"

    def _word(self, word: str) -> str:
        if is_common(word):
            return word
        head, name = _split(word)
        return head + self._of.get(name, name)

    def renamed(self, value: Any) -> Any:
        """A value of an object with pseudonyms in keys and texts, and without messages of other programs."""
        return self._renamed(value, free=False)

    def _renamed(self, value: Any, *, free: bool) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._renamed(item, free=free) for item in value]
        if isinstance(value, dict):
            return {
                self.text(key) if free else key: self._renamed(item, free=key in _FREE)
                for key, item in value.items()
                if _is_told(value, key)
            }
        return value


def anonymous(
    objects: Iterable[Object], config: Any, key: bytes, keep: Iterable[str] = ()
) -> tuple[list[Object], Any, Pseudonyms]:
    """(objects, configuration, pseudonyms). `keep` are words that stay, as the names of profiles."""
    known = [_without_strange_annotations(obj) for obj in objects]
    pseudonyms = Pseudonyms(known, key, keep)
    for pod, volume in _ephemeral_volumes(known):
        pseudonyms.join(pod, volume)
    found = [
        pseudonyms.renamed(obj) | {"apiVersion": obj["apiVersion"], "kind": obj["kind"]} for obj in known
    ]
    return found, _config(pseudonyms, config), pseudonyms


def _ephemeral_volumes(objects: Iterable[Object]) -> Iterator[tuple[str, str]]:
    """(pod, volume) of ephemeral volumes: the two make the name of the claim."""
    for obj in objects:
        for volume in (obj.get("spec") or {}).get("volumes") or () if obj["kind"] == "Pod" else ():
            if "ephemeral" in volume:
                yield obj["metadata"]["name"], volume["name"]


def _config(pseudonyms: Pseudonyms, config: Any) -> Any:
    """The configuration with the names of the objects replaced; addresses of extenders are left out."""
    if not isinstance(config, dict):
        return config
    kept = ("apiVersion", "kind", "profiles")
    return {key: pseudonyms.renamed(config[key]) for key in kept if key in config}


def _without_strange_annotations(obj: Object) -> Object:
    meta = obj["metadata"]
    kept = {key: value for key, value in (meta.get("annotations") or {}).items() if key in _ANNOTATIONS}
    meta = {key: value for key, value in meta.items() if key != "annotations"}
    return {**obj, "metadata": {**meta, **({"annotations": kept} if kept else {})}}


def _split(word: str) -> tuple[str, str]:
    """(a prefix that stays, the name after it)."""
    for prefix in _PREFIXES:
        if word.startswith(prefix) and len(word) > len(prefix):
            return prefix, word[len(prefix) :]
    return "", word


def _words_of(text: str) -> Iterator[str]:
    """The words of a text that get a pseudonym."""
    if is_common(text):
        return
    for word in _WORD.findall(text):
        name = word if is_common(word) else _split(word)[1]
        if not is_common(name):
            yield name


def _is_told(holder: Mapping[str, Any], key: str) -> bool:
    """Whether a field is kept; of messages, only the one that the scheduler reads: for whom a pod leaves."""
    if key != "message":
        return True
    text = holder[key]
    return holder.get("type") == names.PREEMPTED_FOR or bool(
        isinstance(text, str) and older_texts.preemptors(text)
    )


def _texts(value: Any, *, free: bool = False) -> Iterator[str]:
    """All texts in an object: values, and keys that people choose."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, free=free)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not _is_told(value, key):
                continue
            if free:
                yield str(key)
            yield from _texts(item, free=key in _FREE)
