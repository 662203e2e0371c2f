"""JSON messages of HTTP extenders: encodes requests, validates and decodes responses.

Fields without a JSON tag in Go are sent with Go's spelling ("NodeNames"). Fields are read regardless of case,
as Go does.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.errors import MusterError
from scheduler_core.model.extending import NodeRefusal
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.printable import visible

MOST_POINTS: Final = 10
_LONGEST_REASON: Final = 256
_NO_REASON: Final = "node(s) refused by an extender without a reason"
_any_decoder = decoder(Any)
# A JSON value takes up to 100 bytes of memory, and at least two bytes of text. Whole nodes have one value in
# 20 or more bytes. So large and denser messages are refused, and other large messages are decoded one at a
# time.
_LARGE: Final = 1 << 20
_BYTES_PER_VALUE: Final = 8
_reading = threading.Lock()


class BadExtenderResponse(MusterError):
    """An invalid response. `path` is the field in it, `problem` the error."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(path, problem)

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem


class ExtenderFailed(MusterError):
    """The extender reported an error of its own."""


# Requests


def nodes_body(pod: bytes, names: Sequence[str], nodes: Sequence[bytes] | None) -> bytes:
    """ExtenderArgs: the pod, and the nodes by name, or whole if `nodes` are given."""
    items = None if nodes is None else {"metadata": {}, "items": [msgspec.Raw(node) for node in nodes]}
    named = list(names) if nodes is None else None
    return msgspec.json.encode({"Pod": msgspec.Raw(pod), "Nodes": items, "NodeNames": named})


def victims_body(
    pod: bytes, node: str, victims: Sequence[Pod], whole: Sequence[bytes] | None, violations: int
) -> bytes:
    """ExtenderPreemptionArgs: the victims on a node, by uid, or whole if `whole` is given."""
    pods: list[Any] = [{"UID": victim.uid} for victim in victims]
    if whole is not None:
        pods = [msgspec.Raw(text) for text in whole]
    named = {node: {"Pods": pods, "NumPDBViolations": violations}}
    first, second = (named, None) if whole is not None else (None, named)
    return msgspec.json.encode(
        {"Pod": msgspec.Raw(pod), "NodeNameToVictims": first, "NodeNameToMetaVictims": second}
    )


def binding_body(namespace: str, name: str, uid: str, node: str) -> bytes:
    """ExtenderBindingArgs."""
    return msgspec.json.encode({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node})


# Responses


def filtered(
    text: bytes, sent: Sequence[str], *, by_name: bool
) -> tuple[tuple[str, ...], dict[str, NodeRefusal]]:
    """ExtenderFilterResult: the nodes that remain, in the order sent, and the reasons of the others.

    Raises BadExtenderResponse, and ExtenderFailed where it contains an error.
    """
    fields = _object(_read(text), "")
    _check_error(fields)
    known = frozenset(sent)
    names = fields.get("nodenames")
    if by_name and names is not None:
        left = [_text(name, f"nodenames[{i}]") for i, name in enumerate(_list(names, "nodenames"))]
        _check_known(left, known, "nodenames")
    else:
        left = _names_of_nodes(fields.get("nodes"))
        _check_known(left, known, "nodes")
    passed = frozenset(left)
    refused: dict[str, NodeRefusal] = {}
    for key, resolvable in (("failednodes", True), ("failedandunresolvablenodes", False)):
        for name, why in _failed(fields.get(key), key, known):
            if name not in passed:
                refused[name] = NodeRefusal(why, resolvable)
    silent = NodeRefusal(_NO_REASON)
    refused |= {name: silent for name in sent if name not in passed and name not in refused}
    return tuple(name for name in sent if name in passed), refused


def prioritized(text: bytes, sent: Collection[str]) -> dict[str, int]:
    """HostPriorityList: points from 0 to 10 by node; missing nodes get none. Raises BadExtenderResponse."""
    known = frozenset(sent)
    found: dict[str, int] = {}
    for i, item in enumerate(_list(_read(text, []), "")):
        fields = _object(item, f"[{i}]")
        host = _text(fields.get("host"), f"[{i}].host")
        points = fields.get("score", 0)
        if host not in known:
            raise BadExtenderResponse(f"[{i}].host", f"node {_quoted(host)} was not asked about")
        if not isinstance(points, int) or isinstance(points, bool) or not 0 <= points <= MOST_POINTS:
            raise BadExtenderResponse(f"[{i}].score", f"{_quoted(points)} is not between 0 and {MOST_POINTS}")
        found[host] = points
    return found


def preempted(text: bytes, node: str, victims: Collection[str]) -> frozenset[str]:
    """ExtenderPreemptionResult: uids of the victims that remain; none where the node must not be used.

    Raises BadExtenderResponse, also for victims that were not in the request.
    """
    fields = _object(_read(text), "")
    path = "nodenametometavictims"
    nodes = _object(fields.get(path) or {}, path, fold=False)
    if not nodes:
        return frozenset()
    if set(nodes) != {node}:
        other = next(name for name in nodes if name != node)
        raise BadExtenderResponse(path, f"node {_quoted(other)} was not asked about")
    pods = _list(_object(nodes[node], f"{path}[{node}]").get("pods") or [], f"{path}[{node}].pods")
    found = [
        _text(_object(pod, f"{path}[{node}].pods[{i}]").get("uid"), f"{path}[{node}].pods[{i}].uid")
        for i, pod in enumerate(pods)
    ]
    if not found:
        raise BadExtenderResponse(
            f"{path}[{node}].pods", "a node that may be cleared has at least one victim"
        )
    for i, uid in enumerate(found):
        if uid not in victims:
            raise BadExtenderResponse(f"{path}[{node}].pods[{i}].uid", f"{_quoted(uid)} was not asked about")
    return frozenset(found)


def bound(text: bytes) -> None:
    """ExtenderBindingResult. Raises BadExtenderResponse, and ExtenderFailed where the pod was not bound."""
    _check_error(_object(_read(text, {}), ""))


def _read(text: bytes, null: Any = None) -> Any:
    """The decoded JSON; `null` replaces null."""
    try:
        found = _any_decoder.decode(text) if len(text) <= _LARGE else _read_large(text)
        return null if found is None else found
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadExtenderResponse("", f"the answer is not JSON: {error}") from None


def _read_large(text: bytes) -> Any:
    values = sum(map(text.count, (b",", b"[", b"{")))
    if values > len(text) // _BYTES_PER_VALUE:
        raise BadExtenderResponse(
            "", f"the answer has {values} values in {len(text)} bytes, too many to be one"
        )
    with _reading:
        return _any_decoder.decode(text)


def _check_error(fields: Mapping[str, Any]) -> None:
    error = fields.get("error")
    if error is not None and _text(error, "error", empty=True):
        raise ExtenderFailed(_shortened(error))


def _names_of_nodes(value: Any) -> list[str]:
    if value is None:
        return []
    items = _list(_object(value, "nodes").get("items") or [], "nodes.items")
    found = []
    for i, item in enumerate(items):
        path = f"nodes.items[{i}].metadata"
        metadata = _object(_object(item, f"nodes.items[{i}]").get("metadata"), path)
        found.append(_text(metadata.get("name"), f"{path}.name"))
    return found


def _failed(value: Any, path: str, known: Collection[str]) -> Iterable[tuple[str, str]]:
    for name, why in _object(value or {}, path, fold=False).items():
        if name not in known:
            raise BadExtenderResponse(path, f"node {_quoted(name)} was not asked about")
        yield name, _shortened(_text(why, f"{path}[{name}]", empty=True)) or _NO_REASON


def _check_known(names: Iterable[str], known: Collection[str], path: str) -> None:
    for i, name in enumerate(names):
        if name not in known:
            raise BadExtenderResponse(f"{path}[{i}]", f"node {_quoted(name)} was not asked about")


def _object(value: Any, path: str, *, fold: bool = True) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadExtenderResponse(path, f"{_quoted(value)} is not an object")
    return {key.lower(): item for key, item in value.items()} if fold else value


def _list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadExtenderResponse(path, f"{_quoted(value)} is not a list")
    return value


def _text(value: Any, path: str, *, empty: bool = False) -> str:
    if not isinstance(value, str) or not (value or empty):
        raise BadExtenderResponse(path, f"{_quoted(value)} is not a name" if not empty else "is not a text")
    return value


def _quoted(value: Any) -> str:
    text = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return visible(text[:80])


def _shortened(text: str) -> str:
    text = visible(" ".join(text.split()))
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 3]}..."
