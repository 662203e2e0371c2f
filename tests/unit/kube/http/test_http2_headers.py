from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from hpack import Decoder, Encoder, HPACKError, NeverIndexedHeaderTuple
from hpack.hpack import encode_integer
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler_core.kube.http.http2_headers import (
    MAX_HEADER_LIST_BYTES,
    RequestHeaders,
    encode_string,
    is_plain_success,
    status_and_retry_after,
)
from scheduler_core.kube.http.response_parser import ProtocolError

HUFFMAN = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)
# Where lengths begin to take one more byte, among others.
BOUNDARIES = [0, 1, 126, 127, 128, 254, 255, 256, 382, 383, 16509, 16510, 16511, 16512, 2113662, 2113663]
# Places of `:status` in the static table, and those that stand for a value too.
NAMED = range(8, 15)
KNOWN = {b"200": 8, b"204": 9, b"206": 10, b"304": 11, b"400": 12, b"404": 13, b"500": 14}
# How a literal field begins that enters the table, does not, or never may: bits, and how many tell its name.
ADDED, NOT_ADDED, NEVER_ADDED = (0x40, 6), (0x00, 4), (0x10, 4)
VISIBLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=20)


def string(data: bytes, huffman: bool) -> bytes:
    content = HUFFMAN.encode(data) if huffman else data
    size = encode_integer(len(content), 7)
    size[0] |= 0x80 * huffman
    return bytes(size) + content


def literal(kind: tuple[int, int], index: int, value: bytes, huffman: bool) -> bytes:
    """A field named by its place in the static table; a place of 0 spells `:status` out."""
    start = encode_integer(index, kind[1])
    start[0] |= kind[0]
    return bytes(start) + (b"" if index else string(b":status", huffman)) + string(value, huffman)


def ways(status: bytes) -> list[bytes]:
    """Every way to write a status."""
    found = [
        literal(kind, index, status, huffman)
        for kind, index, huffman in product((ADDED, NOT_ADDED, NEVER_ADDED), (0, *NAMED), (False, True))
    ]
    return [*found, bytes([0x80 | KNOWN[status]])] if status in KNOWN else found


def encoded(fields: Sequence[tuple[str | bytes, str | bytes]], huffman: bool = True) -> bytes:
    encoder = Encoder()
    encoder.header_table_size = 0
    return encoder.encode(fields, huffman=huffman)


def decoded(block: bytes) -> list[tuple[bytes, bytes]]:
    decoder = Decoder(max_header_list_size=1 << 30)
    decoder.header_table_size = decoder.max_allowed_table_size = 0
    return [(bytes(name), bytes(value)) for name, value in decoder.decode(block, raw=True)]


@pytest.mark.parametrize("size", BOUNDARIES)
def test_lengths_take_as_many_bytes_as_they_need(size: int) -> None:
    assert encode_string("x" * size) == string(b"x" * size, huffman=False)


@given(st.text(st.characters(max_codepoint=0xFF), max_size=300))
def test_a_decoder_reads_the_encoded_headers(text: str) -> None:
    assert decoded(b"\x04" + encode_string(text)) == [(b":path", text.encode("latin-1"))]


@given(
    VISIBLE,
    st.lists(st.tuples(VISIBLE, VISIBLE), max_size=3),
    st.lists(
        st.tuples(
            st.sampled_from(["POST", "PATCH", "PUT", "DELETE"]),
            st.builds(lambda text, size: "/" + text * size, VISIBLE, st.integers(0, 40)),
            st.sampled_from(["application/json", "application/strategic-merge-patch+json"]),
            st.integers(0, 1 << 20),
        ),
        max_size=5,
    ),
)
def test_every_block_says_the_whole_request_on_its_own(
    authority: str, identity: list[tuple[str, str]], requests: list[tuple[str, str, str, int]]
) -> None:
    fields = RequestHeaders(authority, identity)
    for method, path, content_type, length in requests:
        head = [(":method", method), (":scheme", "https"), (":authority", authority), (":path", path)]
        own = [(name.lower(), value) for name, value in identity]
        about = [("content-type", content_type), ("content-length", str(length))]
        found: list[Any] = list(Decoder().decode(fields.block(method, path, content_type, length)))
        assert found == [*head, ("accept", "application/json"), *own, *about]


def test_credentials_are_kept_by_nobody_and_no_field_enters_a_table() -> None:
    decoder = Decoder()
    fields = RequestHeaders("api:6443", [("Authorization", "Bearer abc"), ("Impersonate-User", "eve")])
    found = decoder.decode(fields.block("PUT", "/api", "application/json", 7))
    secret: list[Any] = [field[0] for field in found if isinstance(field, NeverIndexedHeaderTuple)]
    assert secret == ["authorization", "impersonate-user"]
    assert not decoder.header_table.dynamic_entries


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(b"\x88", id="200, of the table"),
        *[
            pytest.param(literal(kind, index, b"201", huffman), id=f"201 {kind[0]:#x} {index} {huffman}")
            for kind, index, huffman in product((NOT_ADDED, NEVER_ADDED), NAMED, (False, True))
        ],
    ],
)
def test_a_success_as_servers_without_a_table_write_it_is_known_at_a_glance(status: bytes) -> None:
    assert decoded(status)[0][1] in (b"200", b"201")
    for updates in (0, 1, 2, 5):
        block = b"\x20" * updates + status
        assert is_plain_success(block)
        assert is_plain_success(block + encoded([("content-type", "application/json")]))


@pytest.mark.parametrize(
    "status", ["100", "103", "199", "200", "201", "202", "204", "206", "304", "400", "500"]
)
def test_a_glance_and_a_look_agree_however_a_status_is_written(status: str) -> None:
    for way, updates in product(ways(status.encode()), range(3)):
        block = b"\x20" * updates + way
        assert decoded(block) == [(b":status", status.encode())], block
        assert status_and_retry_after(block) == (int(status), None), block
        assert is_plain_success(block) <= (status in ("200", "201")), block


def test_no_first_byte_deceives_a_glance() -> None:
    values = [string(value, huffman) for value in (b"200", b"201", b"2011") for huffman in (False, True)]
    for first, value in product(range(256), [b"", b"\x04201", b"\x0320", *values]):
        block = bytes([first]) + (value if first < 0x80 else b"")
        try:
            sure = decoded(block)[:1] in ([(b":status", b"200")], [(b":status", b"201")])
        except HPACKError:
            sure = False
        assert is_plain_success(block) <= sure, block


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x20", id="a table's size"),
        pytest.param(b"\x3f\xe1\x1f\x88", id="a table with room"),
        pytest.param(b"\x21\x88", id="a table with room for a byte"),
        pytest.param(b"\x89\x88", id="another status first"),
        pytest.param(encoded([("x", "y"), (":status", "200")]), id="another field first"),
        pytest.param(encoded([("status", "200")]), id="another name"),
        pytest.param(b"\x08\x0320", id="a value that is cut off"),
    ],
)
def test_no_success_is_seen_where_none_comes_first(block: bytes) -> None:
    assert not is_plain_success(block)


@pytest.mark.parametrize("huffman", [False, True])
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        pytest.param(b"3", 3.0, id="seconds"),
        pytest.param(b"0", 0.0, id="at once"),
        pytest.param(b"999999", 999999.0, id="many seconds"),
        pytest.param(b"1000000", None, id="too many seconds"),
        pytest.param(b"", None, id="nothing"),
        pytest.param(b"1.5", None, id="a fraction"),
        pytest.param(b"-1", None, id="in the past"),
        pytest.param(b"Fri, 31 Dec 1999 23:59:59 GMT", None, id="a date"),
        pytest.param(b"\xb2", None, id="a digit of another kind"),
    ],
)
def test_retry_after_is_read_in_seconds(value: bytes, seconds: float | None, huffman: bool) -> None:
    block = encoded([(b":status", b"429"), (b"retry-after", value), (b"date", b"today")], huffman)
    assert status_and_retry_after(block) == (429, seconds)


@given(
    st.sampled_from([b"\x8c", b"\x20\x8d", b"\x48\x03409"]), st.lists(st.tuples(VISIBLE, VISIBLE), max_size=6)
)
def test_other_fields_change_nothing(status: bytes, fields: list[tuple[str, str]]) -> None:
    others = [(f"x-{name}", value) for name, value in fields]
    rest = Encoder().encode([(name, value, True) for name, value in others])
    assert status_and_retry_after(status + rest) == (int(decoded(status)[0][1]), None)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(encoded([("retry-after", "1")]), id="no status"),
        pytest.param(encoded([(":status", "")]), id="an empty status"),
        pytest.param(encoded([(":status", "20")]), id="a short status"),
        pytest.param(encoded([(":status", "2000")]), id="a long status"),
        pytest.param(encoded([(":status", "+20")]), id="a sign"),
        pytest.param(encoded([(b":status", b"20\xb2")]), id="a digit of another kind"),
        pytest.param(b"\x8c\xff\xff", id="a number that is cut off"),
        pytest.param(b"\x8c\x80", id="the field at no place"),
        pytest.param(b"\x8c\xbe", id="a field of a table that is not kept"),
        pytest.param(b"\x8c\x08\x03", id="a value that is cut off"),
        pytest.param(b"\x8c\x0f\x24\x81\x00", id="text in no code"),
        pytest.param(b"\x8c\x20", id="a table's size behind a field"),
        pytest.param(b"\x3f\xe1\x1f\x8c", id="a table that nobody allowed"),
        pytest.param(
            b"\x8c" + b"\x0f\x24" + encode_string("x" * MAX_HEADER_LIST_BYTES), id="fields beyond all bounds"
        ),
    ],
)
def test_headers_that_are_no_answer_are_reported(block: bytes) -> None:
    with pytest.raises(ProtocolError):
        status_and_retry_after(block)


def test_fields_up_to_the_bound_are_read() -> None:
    assert status_and_retry_after(b"\x8c\x0f\x24" + encode_string("x" * (MAX_HEADER_LIST_BYTES - 100))) == (
        400,
        None,
    )


@given(st.sampled_from([b"", b"\x8c", b"\x20", b"\x48"]), st.binary(max_size=60))
@example(b"\x48", b"\x03200")
def test_any_bytes_give_a_status_or_the_error(start: bytes, rest: bytes) -> None:
    try:
        status, retry_after = status_and_retry_after(start + rest)
    except ProtocolError:
        return
    assert 0 <= status <= 999
    assert retry_after is None or retry_after >= 0
