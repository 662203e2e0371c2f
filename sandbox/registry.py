"""The write path of the server, shared by HTTP handlers and in-process controllers.

Every write runs: defaulting, mutating admission, rules of the kind, validating admission, store. Between
reading the old object and storing the new one other requests may run (webhooks are awaited), so the store is
asked again at the end, and a write that lost the race starts over or ends as a Conflict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandbox import deletion, errors, metadata, patching, preconditions, strategy
from sandbox.admit import AdmissionChain, AdmissionRequest, OpenAdmission, Operation
from sandbox.builtin import NAMESPACES
from sandbox.calls import Call, admission_request, report_unknown
from sandbox.kinds import ApiKind, KindTable
from sandbox.objects import Obj, copy_json
from sandbox.store import Store, Version
from sandbox.versions import kind_view, stored_form

__all__ = ["AdmissionChain", "AdmissionRequest", "Call", "OpenAdmission", "Registry"]

Change = Callable[[Obj], Obj | None]
_NAME_TRIES = 8
# Changes of these subresources are the server's own, so nothing has to be defaulted or restored.
_MADE_HERE = frozenset({"binding", "finalize"})


class Registry:
    """Request-level verbs. `admission` may be replaced after construction."""

    def __init__(self, store: Store, kinds: KindTable, admission: AdmissionChain | None = None) -> None:
        self.store = store
        self.kinds = kinds
        self.admission: AdmissionChain = admission or OpenAdmission()

    def get(self, kind: ApiKind, namespace: str, name: str) -> Obj:
        """The stored object (do not change it). Raises NotFound."""
        found = self.store.get(kind, namespace, name)
        if found is None:
            raise errors.not_found(kind, name)
        return found

    async def read(self, kind: ApiKind, namespace: str, name: str) -> Obj | None:
        """The object as it is now, whatever the store lags behind; None if there is none."""
        return self.store.get(kind, namespace, name)

    async def create(
        self, kind: ApiKind, obj: Obj, *, namespace: str = "", call: Call | None = None, owned: bool = False
    ) -> Obj:
        """Create an object in `namespace` (or the one in its metadata). Returns what was stored.

        `owned` says that the caller gives the object away, which saves a copy.
        """
        call = call or Call()
        obj = obj if owned else copy_json(obj)
        metadata.check_types(obj)
        preconditions.check_new(obj["metadata"])
        namespace = self._place(kind, obj, namespace)
        report_unknown(kind, strategy.apply_defaults(kind, obj), call)
        meta = obj["metadata"]
        request = admission_request("CREATE", kind, namespace, meta.get("name", ""), obj, None, call)
        mutated, warnings = await self.admission.mutate(request)
        call.warnings += warnings
        if mutated is not None and mutated is not obj:
            obj = mutated
            metadata.check_types(obj)
            strategy.apply_defaults(kind, obj)
        for last in [False] * (_NAME_TRIES - 1) + [True]:
            generated = self._name_new(kind, obj)
            try:
                return await self._insert(kind, obj, request, call)
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
            cause = errors.Cause(
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

    async def _insert(self, kind: ApiKind, obj: Obj, request: AdmissionRequest, call: Call) -> Obj:
        strategy.prepare_create(kind, obj)
        name = obj["metadata"]["name"]
        causes = strategy.create_causes(kind, obj)
        if causes:
            raise errors.invalid(kind, name, causes)
        if self.store.version(kind, request.namespace, name):
            raise errors.already_exists(kind, name)
        request.obj, request.name = obj, name
        call.warnings += await self.admission.validate(request)
        try:
            if call.dry_run:
                return obj
            return self.store.create(kind, stored_form(kind, obj))
        except errors.StatusError:
            await self.admission.release(request)
            raise

    async def update(
        self, kind: ApiKind, obj: Obj, *, subresource: str = "", call: Call | None = None
    ) -> Obj:
        """Replace an object, or its part behind `subresource`.

        `metadata.resourceVersion` and `metadata.uid` must match if they are set.
        """
        call = call or Call()
        metadata.check_types(obj)
        meta = obj["metadata"]
        name = meta.get("name", "")
        namespace = meta.get("namespace", "") if kind.namespaced else ""
        return await self.modify(kind, namespace, name, lambda old: obj, subresource=subresource, call=call)

    async def modify(
        self,
        kind: ApiKind,
        namespace: str,
        name: str,
        change: Change,
        *,
        subresource: str = "",
        call: Call | None = None,
        admit: Obj | None = None,
    ) -> Obj:
        """Read, change and write until no other writer came between.

        `change` gets the stored object, must not touch it, and returns a new one (parts may be shared), or
        None to leave it. `admit` is what admission judges (as CREATE) in place of the object: a Binding.
        """
        call = call or Call()
        while True:
            version = self.store.version(kind, namespace, name)
            if version is None:
                raise errors.not_found(kind, name)
            seen = kind_view(kind, version.obj)
            new = change(seen)
            if new is None:
                return seen
            new = copy_json(new)
            preconditions.check_update(kind, new["metadata"], version)
            done = await self._replace(kind, new, version, subresource, call, admit)
            if done is not None:
                return done

    async def _replace(
        self, kind: ApiKind, new: Obj, version: Version, subresource: str, call: Call, admit: Obj | None
    ) -> Obj | None:
        """Write `new` over `version`, or None if another writer came between."""
        old = kind_view(kind, version.obj)
        name = version.name
        if subresource not in _MADE_HERE:
            report_unknown(kind, strategy.apply_defaults(kind, new), call)
            new = strategy.prepare_update(kind, new, old, subresource)
        operation: Operation = "CREATE" if admit else "UPDATE"
        judged, before = (admit, None) if admit else (new, old)
        place = version.namespace
        request = admission_request(operation, kind, place, name, judged, before, call, subresource)
        mutated, warnings = await self.admission.mutate(request)
        call.warnings += warnings
        if mutated is not None and not admit:
            new = mutated
        causes = strategy.update_causes(kind, new, old, subresource)
        if causes:
            raise errors.invalid(kind, name, causes)
        request.obj = admit or new
        call.warnings += await self.admission.validate(request)
        if self.store.version(kind, version.namespace, name) is not version:
            await self.admission.release(request)
            return None
        if call.dry_run or new == old:
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
        call: Call | None = None,
    ) -> Obj:
        """Apply a patch of one of the four patch media types. Server-side apply creates what is missing."""
        call = call or Call()
        if content_type == patching.APPLY:
            return await self._apply(kind, namespace, name, body, subresource, call)
        patching.check(kind, body, content_type)

        def change(old: Obj) -> Obj:
            new = patching.patched(kind, old, body, content_type)
            call.patch = patching.shown(new, body, content_type)
            metadata.check_types(new)
            return new

        return await self.modify(kind, namespace, name, change, subresource=subresource, call=call)

    async def _apply(
        self, kind: ApiKind, namespace: str, name: str, body: Obj, subresource: str, call: Call
    ) -> Obj:
        unknown = strategy.unknown_fields(kind, body)
        if unknown:
            place = f"{namespace}/{name}"
            raise errors.undeclared_field(kind, place, kind.version, unknown)
        if self.store.version(kind, namespace, name) is None:
            if subresource or (body.get("metadata") or {}).get("uid"):
                raise errors.not_found(kind, name)
            new = patching.first_applied(body, name, call.field_manager)
            return await self.create(kind, new, namespace=namespace, call=call, owned=True)

        def change(old: Obj) -> Obj:
            new = patching.applied(kind, old, body, call.field_manager, call.force)
            metadata.check_types(new)
            return new

        return await self.modify(kind, namespace, name, change, subresource=subresource, call=call)

    async def delete(
        self,
        kind: ApiKind,
        namespace: str,
        name: str,
        *,
        options: Obj | None = None,
        call: Call | None = None,
    ) -> Obj:
        """Delete or begin to delete. `options` is a DeleteOptions object. Returns the object's last state."""
        call = call or Call()
        options = options or {}
        while True:
            version = self.store.version(kind, namespace, name)
            if version is None:
                raise errors.not_found(kind, name)
            deletion.namespace_forbidden(kind, name)
            deletion.check_preconditions(kind, version, options.get("preconditions") or {})
            request = admission_request(
                "DELETE", kind, namespace, name, None, kind_view(kind, version.obj), call, options=options
            )
            call.warnings += (await self.admission.mutate(request))[1]
            call.warnings += await self.admission.validate(request)
            if self.store.version(kind, namespace, name) is version:
                break
            await self.admission.release(request)
        marked = deletion.marked(kind, version.obj, options)
        if call.dry_run:
            return kind_view(kind, marked or version.obj)
        if marked is version.obj:
            return kind_view(kind, marked)
        if marked is not None:
            return kind_view(kind, self.store.update(kind, marked))
        await self._remove_instances(kind, version.obj)
        return kind_view(kind, self.store.remove(kind, namespace, name))

    async def _remove_instances(self, kind: ApiKind, obj: Obj) -> None:
        """With a CRD go its objects, whatever finalizers they carry."""
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
        call: Call | None = None,
    ) -> list[Obj]:
        """Delete every object that `matches`; returns their last states."""
        deleted = []
        for obj in self.store.list(kind, namespace):
            place, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
            if matches(kind_view(kind, obj)) and self.store.version(kind, place, name):
                deleted.append(await self.delete(kind, place, name, options=options, call=call))
        return deleted
