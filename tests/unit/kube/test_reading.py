"""Lines of a watch and objects of a list, decoded once, and whole where somebody asks."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from scheduler_core.kube.reading import Decoder, Headed, Metadata, Sight, read_metadata


class Sized(Headed):
    """An object with one more field."""

    size: int = 0


GOOD = b'{"kind":"Thing","metadata":{"name":"t","uid":"u","resourceVersion":"7","labels":{"a":"b"}},"size":3}'
OTHER_SIZE = GOOD.replace(b":3}", b':"three"}')
NO_METADATA = b'{"size":3}'
KNOWN = Metadata("t", "", "u", "7")


def line(obj: bytes) -> bytes:
    return b'{"type":"MODIFIED","object":' + obj + b"}"


def in_watch(obj: bytes) -> Sight:
    kind, sight = Decoder(Sized).change(line(obj))
    assert kind == "MODIFIED"
    return sight


def in_list(obj: bytes) -> Sight:
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
    see: Callable[[bytes], Sight], obj: bytes, metadata: Metadata, size: int | None
) -> None:
    sight = see(obj)
    assert sight.metadata == metadata
    assert (sight.wire.size if sight.wire is not None else None) == size
    assert bytes(sight.raw()) == obj


@pytest.mark.parametrize("see", [in_watch, in_list])
@pytest.mark.parametrize("levels", [500, *range(960, 1010), 9_000])
def test_an_object_as_deep_as_can_be_stored_is_read(see: Callable[[bytes], Sight], levels: int) -> None:
    """Also one so deep that only some of the steps can read it."""
    fields = b'{"f:x":' * levels + b"{}" + b"}" * levels
    sight = see(GOOD.replace(b'"size"', b'"fields":' + fields + b',"size"'))
    assert (sight.metadata, sight.wire.size) == (KNOWN, 3)
    assert read_metadata(sight.raw()) == KNOWN


@pytest.mark.parametrize("see", [in_watch, in_list])
@pytest.mark.parametrize("obj", [b"7", b'{"metadata":[]}', b'{"metadata":{"name":3}}', b"{"])
def test_what_is_no_object_is_an_error(see: Callable[[bytes], Sight], obj: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        see(obj)
