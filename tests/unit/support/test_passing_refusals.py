"""What a kube-apiserver refuses for a moment only is asked again; all else is told at once."""

from __future__ import annotations

import pytest

from tests.support.clusters.server import RequestFailed, passes


@pytest.mark.parametrize(
    ("refusal", "moment"),
    [
        (RequestFailed(429, {"message": "storage is (re)initializing"}), True),
        (RequestFailed(503, "apiserver is shutting down"), True),
        (RequestFailed(429, {"message": "too many requests"}), False),
        (RequestFailed(503, "etcd is away"), False),
        (RequestFailed(409, {"message": "apiserver is shutting down"}), False),
    ],
    ids=str,
)
def test_only_what_passes_is_asked_again(refusal: RequestFailed, moment: bool) -> None:
    assert passes(refusal) is moment
