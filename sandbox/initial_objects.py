"""Initial objects: Muster's CRDs from the chart, objects that the caller gives, and ServiceAccounts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import yaml

from sandbox.errors import StatusError
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SERVICE_ACCOUNTS
from sandbox.objects import Obj
from sandbox.store.registry import Registry
from sandbox.yaml_loading import LOADER
from scheduler_core.errors import ConfigError


async def create_objects(registry: Registry, objects: Iterable[Obj]) -> None:
    """Create objects and their missing namespaces, or update those that are there.

    Raises ConfigError with the object's kind and name.
    """
    for obj in objects:
        await _create(registry, obj)


async def _create(registry: Registry, obj: Obj) -> None:
    kind = registry.kinds.of(obj)
    meta = obj.get("metadata") or {}
    if kind is None:
        what = f"{obj.get('apiVersion', '')} {obj.get('kind', '')}".strip()
        raise ConfigError("kind", f"{what!r} is not served by the sandbox", kind="NotSupported")
    namespace = meta.get("namespace") or ("default" if kind.namespaced else "")
    try:
        if namespace and registry.store.get(NAMESPACES, "", namespace) is None:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await registry.create(NAMESPACES, body)
        await put_object(registry, kind, namespace if kind.namespaced else "", obj)
    except StatusError as error:
        name = "/".join(filter(None, (namespace, str(meta.get("name", "")))))
        raise ConfigError(f"{kind.kind} {name}", str(error), kind=error.reason) from None


async def put_object(registry: Registry, kind: ApiKind, namespace: str, obj: Obj) -> None:
    """Create an object, or give an existing one the same content; its metadata and status stay."""
    name = (obj.get("metadata") or {}).get("name", "")
    if registry.store.get(kind, namespace, name) is None:
        await registry.create(kind, obj, namespace=namespace)
        return
    content = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    await registry.modify(kind, namespace, name, lambda seen: {**seen, **content})


async def create_service_account(registry: Registry, namespace: str) -> None:
    """Create the default ServiceAccount of a namespace unless it exists."""
    if registry.store.get(SERVICE_ACCOUNTS, namespace, "default") is None:
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await registry.create(SERVICE_ACCOUNTS, body, namespace=namespace)


def crd_dir() -> Path:
    """Directory of Muster's CustomResourceDefinitions. Raises ConfigError."""
    return _of_chart("crds")


def _of_chart(folder: str) -> Path:
    """A folder of the chart, in the installed package or in the source tree. Raises ConfigError."""
    package = Path(__file__).resolve().parent
    for found in (package / folder, package.parent / "charts" / "muster" / folder):
        if found.is_dir():
            return found
    raise ConfigError("", "not found; install Muster anew, or run it from a source checkout", file=str(found))


def read_user_roles() -> list[Obj]:
    """The chart's ClusterRoles for users of Muster, which become part of `edit` and `view`."""
    roles = []
    for name, above in (("view", ("view", "edit", "admin")), ("edit", ("edit", "admin"))):
        rules = yaml.load((_of_chart("rbac") / f"users-{name}.yaml").read_text(encoding="utf-8"), LOADER)[
            "rules"
        ]
        labels = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in above}
        meta = {"name": f"muster-{name}", "labels": labels}
        roles.append(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": meta,
                "rules": rules,
            }
        )
    return roles


def read_crds(folder: Path) -> list[Obj]:
    """All CustomResourceDefinitions in the YAML files of `folder`. Raises ConfigError with the file name."""
    return [obj for path in sorted(folder.glob("*.yaml")) for obj in read_definitions(path)]


def read_definitions(path: Path) -> list[Obj]:
    """All CustomResourceDefinitions in a YAML file. Raises ConfigError with the file name."""
    try:
        documents: Iterable[Obj] = list(yaml.load_all(path.read_text(encoding="utf-8"), LOADER))
    except OSError as error:
        raise ConfigError("", error.strerror or str(error), file=str(path)) from None
    except yaml.YAMLError as error:
        raise ConfigError("", " ".join(str(error).split()), file=str(path)) from None
    return [obj for obj in documents if obj and obj.get("kind") == CUSTOM_RESOURCE_DEFINITIONS.kind]
