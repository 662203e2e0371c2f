"""Kubeconfig files: finds, merges and selects a context as kubectl does."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from scheduler_core.kube.errors import KubeconfigError

_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_PATH_FIELDS = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
    "contexts": (),
}


@dataclass(frozen=True)
class Entry:
    """One cluster, user or context, and the file it came from; its paths are absolute."""

    name: str
    body: Mapping[str, Any]
    file: str


@dataclass(frozen=True)
class Kubeconfig:
    """The merged files: of entries with the same name the first one counts."""

    files: tuple[str, ...] = ()
    current_context: str = ""
    clusters: Mapping[str, Entry] = field(default_factory=dict)
    users: Mapping[str, Entry] = field(default_factory=dict)
    contexts: Mapping[str, Entry] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The names of the files, for messages."""
        return os.pathsep.join(self.files) or "kubeconfig"


@dataclass(frozen=True)
class KubeconfigSelection:
    """The selected context, cluster and user; None for a cluster or user that is not set."""

    context: str
    cluster: Entry | None
    user: Entry | None
    namespace: str


def find_files(explicit: str, environ: Mapping[str, str]) -> list[Path]:
    """The files to read: the explicit one, else the existing ones of KUBECONFIG, else ~/.kube/config.

    Raises KubeconfigError if the explicit file does not exist.
    """
    if explicit:
        path = Path(explicit).expanduser()
        if not path.is_file():
            raise KubeconfigError(explicit, "no such file")
        return [path]
    listed = [part for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if listed:
        return [path for path in map(Path, listed) if path.is_file()]
    default = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    return [default] if default.is_file() else []


def load(files: Sequence[Path]) -> Kubeconfig:
    """Read and merge. Raises KubeconfigError with the file and the problem."""
    current = ""
    merged: dict[str, dict[str, Entry]] = {section: {} for section in _SECTIONS}
    for path in files:
        document = _read(path)
        chosen = document.get("current-context") or ""
        if not isinstance(chosen, str):
            raise KubeconfigError(str(path), "current-context is not a string")
        current = current or chosen
        for section, inner in _SECTIONS.items():
            for entry in _entries(document, section, inner, path):
                merged[section].setdefault(entry.name, entry)
    return Kubeconfig(tuple(map(str, files)), current, **merged)


def select(
    config: Kubeconfig, *, context: str = "", cluster: str = "", user: str = ""
) -> KubeconfigSelection:
    """Choose context, cluster and user. Raises KubeconfigError for a name that is not defined."""
    name = context or config.current_context
    body: Mapping[str, Any] = {}
    if name:
        body = _named(config, config.contexts, "context", name).body
    cluster = cluster or _text(body, "cluster", config)
    user = user or _text(body, "user", config)
    return KubeconfigSelection(
        name,
        _named(config, config.clusters, "cluster", cluster) if cluster else None,
        _named(config, config.users, "user", user) if user else None,
        _text(body, "namespace", config),
    )


def _named(config: Kubeconfig, entries: Mapping[str, Entry], kind: str, name: str) -> Entry:
    entry = entries.get(name)
    if entry is None:
        known = f" (there are: {', '.join(sorted(entries))})" if entries else ""
        raise KubeconfigError(config.source, f"{kind} {name!r} does not exist{known}")
    return entry


def _text(body: Mapping[str, Any], key: str, config: Kubeconfig) -> str:
    value = body.get(key) or ""
    if not isinstance(value, str):
        raise KubeconfigError(config.source, f"{key} is not a string")
    return value


def _read(path: Path) -> Mapping[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        with path.open("rb") as file:
            document = yaml.load(file, Loader=loader)
    except OSError as error:
        raise KubeconfigError(str(path), (error.strerror or str(error)).lower()) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise KubeconfigError(str(path), f"not YAML: {' '.join(str(error).split())}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise KubeconfigError(str(path), f"expected a mapping, found a {type(document).__name__}")
    return document


def _entries(document: Mapping[str, Any], section: str, inner: str, path: Path) -> list[Entry]:
    found = document.get(section) or []
    if not isinstance(found, list):
        raise KubeconfigError(str(path), f"{section} is not a list")
    entries: dict[str, Entry] = {}
    for index, item in enumerate(found):
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise KubeconfigError(str(path), f"{section}[{index}] has no name")
        body = item.get(inner) or {}
        if not isinstance(body, dict):
            raise KubeconfigError(str(path), f"{section}[{index}].{inner} is not a mapping")
        if item["name"] in entries:
            raise KubeconfigError(str(path), f"{section}[{index}]: the name {item['name']!r} is there twice")
        entries[item["name"]] = Entry(item["name"], _absolute(body, section, path), str(path))
    return list(entries.values())


def _absolute(body: Mapping[str, Any], section: str, path: Path) -> Mapping[str, Any]:
    """The entry with absolute paths. Paths are relative to the kubeconfig's directory, an exec command only
    if it contains a slash.
    """
    base = path.absolute().parent
    result = dict(body)
    for key in _PATH_FIELDS[section]:
        if isinstance(result.get(key), str) and result[key]:
            result[key] = str(base / result[key])
    plugin = result.get("exec") if section == "users" else None
    if isinstance(plugin, dict) and os.sep in str(plugin.get("command", "")):
        result["exec"] = {**plugin, "command": str(base / plugin["command"])}
    return result
