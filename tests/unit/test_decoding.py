"""Reading into types from many threads at once."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.decoding import MOST_LEVELS, decode_deep, fresh_decoder, is_deep, shallow

# Each round has types that nobody has read yet, and four threads that begin at once.
ROUNDS = """
import sys, threading, msgspec
from scheduler_core.decoding import convert, decode
sys.setswitchinterval(1e-6)

def all_at_once(read):
    barrier = threading.Barrier(4)
    def run():
        barrier.wait()
        found.append(read())
    threads = [threading.Thread(target=run) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]

for number in range(40):
    found = []
    inner = msgspec.defstruct("Inner", [(f"field{i}", int | None, None) for i in range(20)])
    outer = msgspec.defstruct("Outer", [(f"many{i}", list[inner], []) for i in range(10)])
    all_at_once(READ)
    assert [[part.field19 for part in each.many9] for each in found] == [[3]] * 4, found
print("all read")
"""
READS = {
    "from JSON": """lambda: decode(b'{"many9": [{"field19": 3}]}', outer)""",
    "from plain values": """lambda: convert({"many9": [{"field19": 3}]}, outer)""",
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_a_type_may_be_read_first_by_many_threads_at_once(read: str) -> None:
    program = ROUNDS.replace("READ", read)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "all read\n"), done.stderr


def pruned(value: Any, levels: int) -> Any:
    """What `shallow` should leave."""
    if not isinstance(value, (dict, list)):
        return value
    if not levels:
        return None
    if isinstance(value, list):
        return [pruned(item, levels - 1) for item in value]
    return {key: pruned(item, levels - 1) for key, item in value.items()}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a"\\[]{}ü\n'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('a"\\[]{}'), inner, max_size=4),
)


@given(VALUES, st.integers(MOST_LEVELS - 6, MOST_LEVELS + 6))
def test_values_nested_too_deeply_become_null_and_others_stay(value: Any, levels: int) -> None:
    for number in range(levels):
        value = [1, value, "]"] if number % 2 else {"{": value, "b": [2]}
    assert json.loads(shallow(json.dumps(value).encode())) == pruned(value, MOST_LEVELS)


def levels_of(value: Any) -> int:
    """How many arrays and objects are inside each other."""
    if not isinstance(value, (dict, list)):
        return 0
    return 1 + max(map(levels_of, value.values() if isinstance(value, dict) else value), default=0)


@given(
    VALUES, st.integers(MOST_LEVELS - 6, MOST_LEVELS + 1), st.sampled_from(["]", "[", '"[', "\\]", '\\"]]'])
)
def test_json_is_deep_where_it_has_more_levels_than_are_read(value: Any, levels: int, text: str) -> None:
    for number in range(levels):
        value = [1, value, text] if number % 2 else {text: value, "b": [2]}
    assert is_deep(json.dumps(value).encode()) == (levels_of(value) > MOST_LEVELS)


LIMIT = b"[" * MOST_LEVELS + b"]" * MOST_LEVELS
WIDE = b"[" + b"[[]]," * MOST_LEVELS + b"[]]"
DEPTHS = [
    ("as many levels as are read", LIMIT, False),
    ("one more", b"[%b]" % LIMIT, True),
    ("many that are short", WIDE, False),
    ("deep after many that are short", b"[%b,%b]" % (WIDE, LIMIT), True),
    ("deep after a long text", b'["%b",%b]' % (b"]x" * 100_000, LIMIT), True),
    ("brackets in a long text", b'[%b,"%b"]' % (WIDE, b"[x" * 100_000), False),
    ("deep after many texts", b'["]"%b,%b]' % (b',"]"' * 50_001, LIMIT), True),
    ("brackets in many texts", b"[%b%b]" % (WIDE, b',"["' * 50_001), False),
    ("as many levels as are read, a thousand times", b"[%b0]" % (LIMIT[1:-1] + b",") * 1000, False),
    ("close to the limit throughout", LIMIT[: MOST_LEVELS - 2] + b"[[]]" * 100_000, True),
    ("never closed", b"[" * 1_000_000, True),
    ("closed a million times", LIMIT + b"]" * 1_000_000, False),
]


@pytest.mark.parametrize(("text", "deep"), [case[1:] for case in DEPTHS], ids=[case[0] for case in DEPTHS])
def test_depth_is_found_in_large_json_too(text: bytes, deep: bool) -> None:
    assert is_deep(text) == deep


@given(st.binary() | st.text('"\\[]{}:,a1').map(str.encode))
def test_invalid_json_stays_invalid(text: bytes) -> None:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        with pytest.raises((msgspec.DecodeError, UnicodeError)):
            msgspec.json.decode(shallow(text))
    else:
        assert shallow(text) == text


@pytest.mark.parametrize("levels", [10, 800, 995, 10_000, 100_000])
def test_one_deep_object_does_not_make_the_others_unreadable(levels: int) -> None:
    deep = b'{"name": "deep", "x": ' + b"[" * levels + b"]" * levels + b"}"
    text = b'{"items": [{"name": "a"}, ' + deep + b', {"name": "b"}]}'
    items = msgspec.defstruct("Items", [("items", list[msgspec.Raw])])
    found = decode_deep(fresh_decoder(items), text).items
    named = msgspec.defstruct("Named", [("name", str)])
    assert [decode_deep(fresh_decoder(named), raw).name for raw in found] == ["a", "deep", "b"]
