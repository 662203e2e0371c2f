"""Objects of manifest files, as changes of a cluster: owners of pods come with the pods that they make."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kubectl_plugin.cli.errors import CommandFailed
from scheduler_core.answers.draft import Draft, Object
from scheduler_core.answers.owners import COUNTS, as_admitted, pods_of_manifest, scale
from scheduler_core.answers.suppositions import check_quota
from scheduler_core.errors import ConfigError, ModelError
from scheduler_core.printing.counts import counted
from scheduler_core.simulate.kinds import WORKLOADS, api_version_of, check_kind, is_namespaced, parser_of
from scheduler_core.simulate.scenario import load_documents

_SUFFIXES: Final = (".yaml", ".yml", ".json")
# Reading more than this would be no manifest.
_MOST_BYTES: Final = 50_000_000


def put_manifests(draft: Draft, files: Sequence[str], namespace: str) -> list[Object]:
    """Add the objects of files (a folder: its manifests; `-`: standard input) to a draft.

    Returns the objects as they are written. Raises CommandFailed for a file that cannot be read, ConfigError
    with file and field for an object that cannot.
    """
    texts = ((name, load_documents(text, name)) for name, text in _texts(files))
    return put_objects(draft, texts, namespace, ", ".join(files))


def put_objects(
    draft: Draft, texts: Iterable[tuple[str, Sequence[Any]]], namespace: str, source: str
) -> list[Object]:
    """Add the documents of some texts to a draft; each text has a name. `source` names them all.

    Returns the objects as they are written. Raises as `put_manifests`.
    """
    found = []
    for name, documents in texts:
        for number, document in enumerate(_objects_of(documents, name)):
            path = f"{name}, object {number + 1}"
            obj = _completed(document, path, namespace)
            _put(draft, obj, path)
            found.append(obj)
    if not found:
        raise CommandFailed("no objects passed to apply")
    draft.tell(f"{counted(len(found), 'object')} of {source}")
    return found


def _texts(files: Sequence[str]) -> Iterator[tuple[str, str]]:
    for file in files:
        if file == "-":
            yield "standard input", sys.stdin.read(_MOST_BYTES)
            continue
        path = Path(file)
        paths = [path]
        if path.is_dir():
            paths = sorted(item for item in path.iterdir() if item.suffix in _SUFFIXES)
        for item in paths:
            yield str(item), _read(item)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise CommandFailed(f"{path}: is not UTF-8 text") from None


def _objects_of(documents: Sequence[Any], file: str) -> Iterator[Mapping[str, Any]]:
    """The documents, and the items of those that are lists."""
    for document in documents:
        if not isinstance(document, dict):
            raise ConfigError("", f"must be an object, not {type(document).__name__}", file=file)
        items = document.get("items")
        if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
            yield from _objects_of(items, file)
        else:
            yield document


def _completed(document: Mapping[str, Any], path: str, namespace: str) -> Object:
    """The object with its namespace and apiVersion. Raises ConfigError."""
    check_kind(document, path)
    obj: Object = dict(document)
    meta = obj.get("metadata")
    if not isinstance(meta, dict) or not meta.get("name"):
        raise ConfigError(f"{path}.metadata.name", "is required")
    for part in ("spec", "status"):
        if obj.get(part) is not None and not isinstance(obj[part], dict):
            raise ConfigError(f"{path}.{part}", "must be a mapping")
    obj["apiVersion"] = api_version_of(obj)
    obj["metadata"] = dict(meta)
    if is_namespaced(str(obj["kind"])):
        obj["metadata"].setdefault("namespace", namespace)
    return obj


def _put(draft: Draft, obj: Object, path: str) -> None:
    kind = str(obj["kind"])
    if kind == "Pod":
        obj = as_admitted(draft, obj)
    parse = parser_of(obj)
    if parse is not None:
        try:
            parse(obj)
        except ModelError as error:
            raise ConfigError(path, str(error)) from None
    if kind == "ElasticQuota":
        check_quota(draft, obj, path)
    draft.put(obj)
    if kind in COUNTS:
        _put_pods(draft, kind, obj)
    elif kind in WORKLOADS:
        meta = obj["metadata"]
        draft.tell(f"{kind} {meta.get('namespace')}/{meta['name']} makes no pods here: give its pods")


def _put_pods(draft: Draft, kind: str, owner: Object) -> None:
    """The pods of a new owner; an owner that has pods keeps them, in the number that the manifest says."""
    meta = owner["metadata"]
    pods = list(pods_of_manifest(draft, owner))
    if not draft.pods_of(kind, meta["namespace"], meta["name"]):
        for pod in pods:
            draft.put(pod)
    elif kind != "Job" and len(pods) != _alive(draft, kind, meta):
        scale(draft, kind, meta["namespace"], meta["name"], len(pods))


def _alive(draft: Draft, kind: str, meta: Mapping[str, Any]) -> int:
    return sum(not pod.finished for pod in draft.pods_of(kind, meta["namespace"], meta["name"]))
