"""Lists of the API server that reviews rest on: all of one moment, and in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.kube.client import Client
from scheduler_core.kube.paging import list_pages
from scheduler_core.model.kinds import Resource

T = TypeVar("T")


def listed(
    client: Client,
    resource: Resource,
    namespace: str,
    parse: Callable[[msgspec.Raw], T],
    label_selector: str = "",
    field_selector: str = "",
) -> tuple[str, list[T]]:
    """The resourceVersion of a list and its objects, in one page where that is not too large.

    Objects that cannot be read are left out, as the watch leaves them out. Raises ApiError.
    """
    version, found = "", []
    for page in list_pages(
        client,
        resource,
        namespace,
        label_selector=label_selector,
        field_selector=field_selector,
        limit=0,
        retry_budget=0.0,
    ):
        version = page.metadata.resourceVersion
        for raw in page.items or ():
            try:
                found.append(parse(raw))
            except ModelError:
                continue
    return version, found
