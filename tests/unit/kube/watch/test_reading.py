"""Lines of a watch and objects of a list, decoded once, and whole where somebody asks."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from scheduler_core.kube.watch.reading import Decoder, Metadata, ObjectHead, ReadObject, read_metadata
from tests.support.every import every_case


class Sized(ObjectHead):
    """An object with one more field."""

    size: int = 0


GOOD = b'{"kind":"Thing","metadata":{"name":"t","uid":"u","resourceVersion":"7","labels":{"a":"b"}},"size":3}'
OTHER_SIZE = GOOD.replace(b":3}", b':"three"}')
NO_METADATA = b'{"size":3}'
KNOWN = Metadata("t", "", "u", "7")


def line(obj: bytes) -> bytes:
    return b'{"type":"MODIFIED","object":' + obj + b"}"


def in_watch(obj: bytes) -> ReadObject:
    kind, read_object = Decoder(Sized).change(line(obj))
    assert kind == "MODIFIED"
    return read_object


def in_list(obj: bytes) -> ReadObject:
    return Decoder(Sized).item(msgspec.Raw(obj))


@pytest.mark.parametrize("see", [in_watch, in_list])
@pytest.mark.parametrize(
    ("obj", "metadata", "size"),
    [
        pytest.param(GOOD, KNOWN, 3, id="of the form"),
        pytest.param(OTHER_SIZE, KNOWN, None, id="of another form"),
        pytest.param(NO_METADATA, Metadata(), 3, id="without metadata"),
    ],
)
def test_an_object_is_seen_with_its_metadata_and_its_json_is_kept(
    see: Callable[[bytes], ReadObject], obj: bytes, metadata: Metadata, size: int | None
) -> None:
    read_object = see(obj)
    assert read_object.metadata == metadata
    assert (read_object.wire.size if read_object.wire is not None else None) == size
    assert bytes(read_object.raw()) == obj


@pytest.mark.parametrize("see", [in_watch, in_list])
@every_case("levels", [500, *range(960, 1010), 9_000, *range(9_990, 10_000)])
def test_an_object_as_deep_as_can_be_stored_is_read(see: Callable[[bytes], ReadObject], levels: int) -> None:
    """Also one so deep that only some of the steps can read it, on Python 3.11 and on 3.13."""
    fields = b'{"f:x":' * levels + b"{}" + b"}" * levels
    read_object = see(GOOD.replace(b'"size"', b'"fields":' + fields + b',"size"'))
    assert (read_object.metadata, read_object.wire.size) == (KNOWN, 3)
    assert read_metadata(read_object.raw()) == KNOWN


@pytest.mark.parametrize("see", [in_watch, in_list])
@pytest.mark.parametrize("obj", [b"7", b'{"metadata":[]}', b'{"metadata":{"name":3}}', b"{"])
def test_a_value_that_is_no_object_is_an_error(see: Callable[[bytes], ReadObject], obj: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        see(obj)
