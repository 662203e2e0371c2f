"""Registry: the read and write path of the API server for HTTP handlers and in-process controllers.

The steps of every write are defaulting, mutating admission, validation, validating admission and storage.
Other requests may run while webhooks are awaited. The registry therefore compares the stored version again
before it stores the new one; after a concurrent change the write is retried or fails with Conflict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandbox import errors
from sandbox.kinds.api_kinds import ApiKind, KindTable
from sandbox.kinds.builtin import NAMESPACES
from sandbox.kinds.builtin_types import WrongType
from sandbox.kinds.fraction_warnings import fraction_warnings
from sandbox.objects import Obj, copy_json
from sandbox.store import deletion, metadata, patching, preconditions, strategy
from sandbox.store.conversion import kind_view, stored_form
from sandbox.store.object_store import ObjectStore, Version
from sandbox.store.requests import (
    AdmissionChain,
    AdmissionRequest,
    OpenAdmission,
    Operation,
    RequestContext,
    report_unknown,
)

__all__ = ["AdmissionChain", "AdmissionRequest", "OpenAdmission", "Registry", "RequestContext"]

Change = Callable[[Obj], Obj | None]
_NAME_TRIES = 8
# The server itself computes changes of these subresources, so they need no defaulting.
_MADE_HERE = frozenset({"binding", "finalize"})


class Registry:
    """API verbs on stored objects. `admission` may be replaced after construction."""

    def __init__(self, store: ObjectStore, kinds: KindTable, admission: AdmissionChain | None = None) -> None:
        self.store = store
        self.kinds = kinds
        self.admission: AdmissionChain = admission or OpenAdmission()

    def get(self, kind: ApiKind, namespace: str, name: str) -> Obj:
        """The stored object, which callers must not change. Raises NotFound."""
        return self.store.current(kind, namespace, name).obj

    async def read(self, kind: ApiKind, namespace: str, name: str) -> Obj | None:
        """The current object, even if the store is a delayed copy; None if it does not exist."""
        return self.store.get(kind, namespace, name)

    async def create(
        self,
        kind: ApiKind,
        obj: Obj,
        *,
        namespace: str = "",
        context: RequestContext | None = None,
        owned: bool = False,
    ) -> Obj:
        """Create an object in `namespace` or the namespace in its metadata. Returns the stored object.

        `owned` means that the caller does not use `obj` afterwards, so it is not copied.
        """
        context = context or RequestContext()
        obj = obj if owned else copy_json(obj)
        metadata.check_types(obj)
        preconditions.check_new(obj["metadata"])
        namespace = self._place(kind, obj, namespace)
        report_unknown(kind, strategy.apply_defaults(kind, obj), context)
        meta = obj["metadata"]
        request = AdmissionRequest("CREATE", kind, namespace, meta.get("name", ""), obj, None, context)
        mutated, warnings = await self.admission.mutate(request)
        context.warnings += warnings
        if mutated is not None and mutated is not obj:
            obj = mutated
            metadata.check_types(obj)
            strategy.apply_defaults(kind, obj)
        for last in [False] * (_NAME_TRIES - 1) + [True]:
            generated = self._name_new(kind, obj)
            try:
                return await self._insert(kind, obj, request, context)
            except errors.StatusError as error:
                if last or not generated or error.reason != "AlreadyExists":
                    raise
                obj["metadata"].pop("name")
        raise AssertionError("the last try returns or raises")

    def _place(self, kind: ApiKind, obj: Obj, namespace: str) -> str:
        meta = obj["metadata"]
        if not kind.namespaced:
            meta.pop("namespace", None)
            return ""
        own = meta.get("namespace") or namespace
        if namespace and own != namespace:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        meta["namespace"] = own
        home = self.store.get(NAMESPACES, "", own)
        if home is None:
            raise errors.not_found(NAMESPACES, own)
        if strategy.is_terminating(home):
            text = f"unable to create new content in namespace {own} because it is being terminated"
            cause = errors.StatusCause(
                "NamespaceTerminating", f"namespace {own} is being terminated", "metadata.namespace"
            )
            raise errors.forbidden(kind, meta.get("name", ""), text, [cause])
        return own

    @staticmethod
    def _name_new(kind: ApiKind, obj: Obj) -> bool:
        meta = obj["metadata"]
        if meta.get("name"):
            return False
        if not meta.get("generateName"):
            text = "name or generateName is required"
            raise errors.invalid(kind, "", [errors.required("metadata.name", text)])
        meta["name"] = metadata.generated_name(meta["generateName"])
        return True

    async def _insert(
        self, kind: ApiKind, obj: Obj, request: AdmissionRequest, context: RequestContext
    ) -> Obj:
        strategy.prepare_create(kind, obj)
        name = obj["metadata"]["name"]
        causes = strategy.create_causes(kind, obj)
        if causes:
            raise errors.invalid(kind, name, causes)
        if self.store.version(kind, request.namespace, name):
            raise errors.already_exists(kind, name)
        request.obj, request.name = obj, name
        context.warnings += fraction_warnings(kind, obj)
        context.warnings += await self.admission.validate(request)
        return obj if context.dry_run else self.store.create(kind, stored_form(kind, obj))

    async def update(
        self, kind: ApiKind, obj: Obj, *, subresource: str = "", context: RequestContext | None = None
    ) -> Obj:
        """Replace an object, or the part that `subresource` covers.

        `metadata.resourceVersion` and `metadata.uid` must match the stored object if they are set.
        """
        context = context or RequestContext()
        metadata.check_types(obj)
        meta = obj["metadata"]
        name = meta.get("name", "")
        namespace = meta.get("namespace", "") if kind.namespaced else ""
        return await self.modify(
            kind, namespace, name, lambda old: obj, subresource=subresource, context=context
        )

    async def modify(
        self,
        kind: ApiKind,
        namespace: str,
        name: str,
        change: Change,
        *,
        subresource: str = "",
        context: RequestContext | None = None,
        admit: Obj | None = None,
    ) -> Obj:
        """Read, change and write an object; retries after a concurrent write.

        `change` gets the stored object, must not modify it, and returns a new object (parts may be shared) or
        None for no change. If `admit` is given (a Binding), admission reviews its creation, not the update.
        """
        context = context or RequestContext()
        while True:
            version = self.store.current(kind, namespace, name)
            seen = kind_view(kind, version.obj)
            new = change(seen)
            if new is None:
                return seen
            new = copy_json(new)
            preconditions.check_update(kind, new["metadata"], version)
            done = await self._replace(kind, new, version, subresource, context, admit)
            if done is not None:
                return done

    async def _replace(
        self,
        kind: ApiKind,
        new: Obj,
        version: Version,
        subresource: str,
        context: RequestContext,
        admit: Obj | None,
    ) -> Obj | None:
        """Replace `version` by `new`; returns None after a concurrent write."""
        old = kind_view(kind, version.obj)
        name = version.name
        if subresource not in _MADE_HERE:
            report_unknown(kind, _defaulted(kind, new, context), context)
            new = strategy.prepare_update(kind, new, old, subresource)
        operation: Operation = "CREATE" if admit else "UPDATE"
        judged, before = (admit, None) if admit else (new, old)
        place = version.namespace
        request = AdmissionRequest(operation, kind, place, name, judged, before, context, subresource)
        mutated, warnings = await self.admission.mutate(request)
        context.warnings += warnings
        if mutated is not None and not admit:
            new = mutated
        causes = strategy.update_causes(kind, new, old, subresource)
        if causes:
            raise errors.invalid(kind, name, causes)
        request.obj = admit or new
        if new.get("spec") != old.get("spec"):
            context.warnings += fraction_warnings(kind, new)
        context.warnings += await self.admission.validate(request)
        if self.store.version(kind, version.namespace, name) is not version:
            return None
        if context.dry_run or new == old:
            return new
        if deletion.is_finished(kind, new):
            return self.store.remove(kind, version.namespace, name)
        return self.store.update(kind, stored_form(kind, new))

    async def patch(
        self,
        kind: ApiKind,
        namespace: str,
        name: str,
        body: Any,
        *,
        content_type: str,
        subresource: str = "",
        context: RequestContext | None = None,
    ) -> Obj:
        """Apply a patch of one of the four media types. Server-side apply creates a missing object."""
        context = context or RequestContext()
        if content_type == patching.APPLY:
            return await self._apply(kind, namespace, name, body, subresource, context)
        patching.check(kind, body, content_type)

        def change(old: Obj) -> Obj:
            new = patching.patched(kind, old, body, content_type)
            context.patch = patching.shown(new, body, content_type)
            metadata.check_types(new)
            found = new["metadata"].get("name")
            if found != name:
                text = f"the name of the object ({found}) does not match the name on the URL ({name})"
                raise errors.bad_request(text)
            return new

        return await self.modify(kind, namespace, name, change, subresource=subresource, context=context)

    async def _apply(
        self, kind: ApiKind, namespace: str, name: str, body: Obj, subresource: str, context: RequestContext
    ) -> Obj:
        unknown = strategy.unknown_fields(kind, body)
        if unknown:
            place = f"{namespace}/{name}"
            raise errors.undeclared_field(kind, place, kind.version, unknown)
        if self.store.version(kind, namespace, name) is None:
            if subresource or (body.get("metadata") or {}).get("uid"):
                raise errors.not_found(kind, name)
            new = patching.first_applied(body, name, context.field_manager)
            return await self.create(kind, new, namespace=namespace, context=context, owned=True)

        def change(old: Obj) -> Obj:
            new = patching.applied(kind, old, body, context.field_manager, context.force)
            metadata.check_types(new)
            return new

        return await self.modify(kind, namespace, name, change, subresource=subresource, context=context)

    async def delete(
        self,
        kind: ApiKind,
        namespace: str,
        name: str,
        *,
        options: Obj | None = None,
        context: RequestContext | None = None,
    ) -> Obj:
        """Delete an object or mark it for deletion; `options` are DeleteOptions. Returns its last state."""
        context = context or RequestContext()
        options = options or {}
        while True:
            version = self.store.current(kind, namespace, name)
            deletion.namespace_forbidden(kind, name)
            preconditions.check_delete(kind, version, options.get("preconditions") or {})
            request = AdmissionRequest(
                "DELETE", kind, namespace, name, None, kind_view(kind, version.obj), context, options=options
            )
            context.warnings += (await self.admission.mutate(request))[1]
            context.warnings += await self.admission.validate(request)
            if self.store.version(kind, namespace, name) is version:
                break
        marked = deletion.marked(kind, version.obj, options)
        if context.dry_run:
            return kind_view(kind, marked or version.obj)
        if marked is version.obj:
            return kind_view(kind, marked)
        if marked is not None:
            return kind_view(kind, self.store.update(kind, marked))
        await self._remove_instances(kind, version.obj)
        return kind_view(kind, self.store.remove(kind, namespace, name))

    async def _remove_instances(self, kind: ApiKind, obj: Obj) -> None:
        """Remove all objects of a deleted CRD, even those with finalizers."""
        instances = deletion.instances(self.kinds, kind, obj)
        if instances:
            for instance in self.store.list(instances):
                meta = instance["metadata"]
                self.store.remove(instances, meta.get("namespace", ""), meta["name"])

    async def delete_collection(
        self,
        kind: ApiKind,
        namespace: str | None,
        matches: Callable[[Obj], bool],
        *,
        options: Obj | None = None,
        context: RequestContext | None = None,
    ) -> list[Obj]:
        """Delete all objects for which `matches` is true; returns their last states."""
        deleted = []
        for obj in self.store.list(kind, namespace):
            place, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
            if matches(kind_view(kind, obj)) and self.store.version(kind, place, name):
                deleted.append(await self.delete(kind, place, name, options=options, context=context))
        return deleted


def _defaulted(kind: ApiKind, new: Obj, context: RequestContext) -> list[str]:
    """Paths of unknown fields, after defaulting in place. What a patch made of the wrong type is Invalid."""
    try:
        return strategy.apply_defaults(kind, new)
    except WrongType as error:
        if context.patch is None:
            raise
        raise errors.invalid_patch(context.patch, error.problem) from None
