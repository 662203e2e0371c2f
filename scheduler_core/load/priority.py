"""Koordinator priority bands of pods, and the resource names that each band requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler_core.model import names
from scheduler_core.model.pods.pod import Pod

PROD: Final = "koord-prod"
MID: Final = "koord-mid"
BATCH: Final = "koord-batch"
FREE: Final = "koord-free"
NONE: Final = ""

# Lowest and highest `spec.priority` of each band.
_BY_PRIORITY: Final = ((9000, 9999, PROD), (7000, 7999, MID), (5000, 5999, BATCH), (3000, 3999, FREE))
_KNOWN: Final = frozenset({PROD, MID, BATCH, FREE})
_BY_QOS: Final = {"LSE": PROD, "LSR": PROD, "LS": PROD, "BE": BATCH, "SYSTEM": PROD}
_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    BATCH: {names.CPU: names.BATCH_CPU, names.MEMORY: names.BATCH_MEMORY},
    MID: {names.CPU: names.MID_CPU, names.MEMORY: names.MID_MEMORY},
    FREE: {},
}


def declared_band(pod: Pod) -> str:
    """The band by label, else by priority; NONE where neither says anything known."""
    label = pod.labels.get(names.PRIORITY_CLASS_LABEL)
    if label is not None:
        return label if label in _KNOWN else NONE
    for low, high, band in _BY_PRIORITY:
        if low <= pod.priority <= high:
            return band
    return NONE


def band_of(pod: Pod) -> str:
    """The band, by quality of service where nothing is declared: koordinator's class, else Kubernetes'."""
    declared = declared_band(pod)
    if declared:
        return declared
    by_label = _BY_QOS.get(pod.labels.get(names.QOS_CLASS_LABEL, ""))
    if by_label is not None:
        return by_label
    return BATCH if pod.best_effort else PROD


def requested_name(band: str, resource: str) -> str:
    """The resource name that pods of a band request instead of `resource`; empty if they request none."""
    translated = _NAMES.get(band)
    return resource if translated is None else translated.get(resource, "")
