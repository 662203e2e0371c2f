"""Reader of the scheduler Policy that a legacy configuration keeps in a ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler_core.config.old.policy_source import ReadConfigMap
from scheduler_core.decoding import decode
from scheduler_core.kube.client import Client
from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.model.kinds import CONFIG_MAPS


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""


class _ConfigMap(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    data: dict[str, str] | None = None


def config_maps_of(*, kubeconfig: str = "", context: str = "") -> ReadConfigMap:
    """A reader of ConfigMaps in the cluster of `kubeconfig`, or else of the kubeconfig in the configuration.

    It sends one request without retries, so that a failed start is reported at once. Raises KubeconfigError,
    ApiError.
    """

    def read(namespace: str, name: str, own: str) -> Mapping[str, str] | None:
        client, _ = connect(Overrides(kubeconfig=kubeconfig or own, context=context))
        once = Client(client.session, retry_budget=0.0)
        try:
            # A list instead of a get, because the scheduler has the right to list ConfigMaps anyway.
            page = once.get_page(CONFIG_MAPS, namespace, field_selector=f"metadata.name={name}")
        finally:
            client.session.close()
        found = (decode(item, _ConfigMap) for item in page.items or ())
        return next((each.data or {} for each in found if each.metadata.name == name), None)

    return read
