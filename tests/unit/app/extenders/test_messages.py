"""What is sent to HTTP extenders, and what of their answers is believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.app.extenders.messages import (
    BadExtenderResponse,
    ExtenderFailed,
    binding_body,
    bound,
    filtered,
    nodes_body,
    preempted,
    prioritized,
    victims_body,
)
from scheduler_core.model.extending import NodeRefusal
from tests.support.builders import make_pod

SENT = ("a", "b", "c")
SILENT = NodeRefusal("node(s) refused by an extender without a reason")
POD = b'{"metadata": {"name": "p"}}'


def test_messages_have_the_field_names_of_go() -> None:
    named = json.loads(nodes_body(POD, ["a"], None))
    assert named == {"Pod": {"metadata": {"name": "p"}}, "Nodes": None, "NodeNames": ["a"]}
    whole = json.loads(nodes_body(POD, ["a"], [b'{"metadata": {"name": "a"}}']))
    assert whole["Nodes"]["items"] == [{"metadata": {"name": "a"}}]
    assert whole["NodeNames"] is None
    assert json.loads(binding_body("ns", "p", "u", "n")) == {
        "PodName": "p",
        "PodNamespace": "ns",
        "PodUID": "u",
        "Node": "n",
    }
    victim = make_pod("a/v").uid("v").obj()
    by_uid = json.loads(victims_body(POD, "n", [victim], None, 2))
    assert by_uid["NodeNameToMetaVictims"] == {"n": {"Pods": [{"UID": "v"}], "NumPDBViolations": 2}}
    assert by_uid["NodeNameToVictims"] is None
    complete = json.loads(victims_body(POD, "n", [victim], [POD], 0))
    assert complete["NodeNameToVictims"]["n"]["Pods"] == [{"metadata": {"name": "p"}}]
    assert complete["NodeNameToMetaVictims"] is None


FILTERED: list[tuple[str, Any, bool, tuple[str, ...], dict[str, NodeRefusal]]] = [
    ("names", {"nodenames": ["b", "a"]}, True, ("a", "b"), {"c": SILENT}),
    ("Go's names", {"NodeNames": ["b"], "Error": ""}, True, ("b",), {"a": SILENT, "c": SILENT}),
    (
        "whole nodes",
        {"Nodes": {"Items": [{"Metadata": {"Name": "c"}}]}, "FailedNodes": {"a": "x", "b": "x"}},
        False,
        ("c",),
        {"a": NodeRefusal("x"), "b": NodeRefusal("x")},
    ),
    (
        "what no eviction helps goes first",
        {
            "nodenames": ["c"],
            "failedNodes": {"a": "x", "b": "y"},
            "failedAndUnresolvableNodes": {"a": "z"},
        },
        True,
        ("c",),
        {"a": NodeRefusal("z", resolvable=False), "b": NodeRefusal("y")},
    ),
    (
        "one that passed is not refused",
        {"nodenames": list(SENT), "failedNodes": {"a": "x"}},
        True,
        SENT,
        {},
    ),
    ("nothing", {}, True, (), dict.fromkeys(SENT, SILENT)),
    ("null", {"nodes": None, "nodenames": None, "failedNodes": None}, True, (), dict.fromkeys(SENT, SILENT)),
    ("nodes of one who was sent names", {"nodes": {"items": []}}, True, (), dict.fromkeys(SENT, SILENT)),
]


@pytest.mark.parametrize(
    ("sentence", "said", "by_name", "left", "refused"), FILTERED, ids=[row[0] for row in FILTERED]
)
def test_what_a_filter_answers(
    sentence: str, said: Any, by_name: bool, left: tuple[str, ...], refused: dict[str, NodeRefusal]
) -> None:
    assert filtered(json.dumps(said).encode(), SENT, by_name=by_name) == (left, refused), sentence


def test_scores() -> None:
    assert prioritized(b'[{"Host": "a", "Score": 10}, {"host": "b", "score": 0}]', SENT) == {"a": 10, "b": 0}
    assert prioritized(b"null", SENT) == {}


def test_victims() -> None:
    said = b'{"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "v"}], "NumPDBViolations": 0}}}'
    assert preempted(said, "n", {"v", "w"}) == {"v"}
    assert preempted(b"{}", "n", {"v"}) == set()
    assert preempted(b'{"nodeNameToMetaVictims": null}', "n", {"v"}) == set()


def by_name(text: bytes) -> Any:
    return filtered(text, SENT, by_name=True)


def scored(text: bytes) -> Any:
    return prioritized(text, SENT)


def cleared(text: bytes) -> Any:
    return preempted(text, "n", {"v"})


LIES: list[tuple[Callable[[bytes], Any], str, str]] = [
    (by_name, "{", "the answer is not JSON"),
    (by_name, "", "the answer is not JSON"),
    (by_name, "\xff", "the answer is not JSON"),
    (by_name, "[" * 100_000, "the answer is not JSON"),
    (by_name, "[]", "list is not an object"),
    (by_name, '{"nodenames": ["z"]}', "nodenames[0]: node 'z' was not asked about"),
    (by_name, '{"nodenames": [7]}', "nodenames[0]: 7 is not a name"),
    (by_name, '{"nodenames": {}}', "nodenames: dict is not a list"),
    (by_name, '{"failedNodes": {"z": "x"}}', "failednodes: node 'z' was not asked about"),
    (by_name, '{"failedNodes": {"a": 7}}', "failednodes[a]: is not a text"),
    (by_name, '{"nodes": {"items": [{}]}}', "nodes.items[0].metadata: None is not an object"),
    (by_name, '{"error": 7}', "error: is not a text"),
    (scored, "{}", "dict is not a list"),
    (scored, '[{"host": "z", "score": 1}]', "[0].host: node 'z' was not asked about"),
    (scored, '[{"host": "a", "score": 11}]', "[0].score: 11 is not between 0 and 10"),
    (scored, '[{"host": "a", "score": -1}]', "[0].score: -1 is not between 0 and 10"),
    (scored, '[{"host": "a", "score": 1.5}]', "[0].score: 1.5 is not between 0 and 10"),
    (scored, '[{"host": "a", "score": true}]', "[0].score: True is not between 0 and 10"),
    (cleared, '{"nodeNameToMetaVictims": {"m": {}}}', "nodenametometavictims: node 'm' was not asked about"),
    (cleared, '{"nodeNameToMetaVictims": {"n": {"pods": []}}}', "has at least one victim"),
    (cleared, '{"nodeNameToMetaVictims": {"n": {"pods": [{"uid": "w"}]}}}', "'w' was not asked about"),
    (bound, "[]", "list is not an object"),
]


@pytest.mark.parametrize(
    ("read", "said", "problem"), LIES, ids=[f"{row[0].__name__} {row[1][:30]}" for row in LIES]
)
def test_an_invalid_answer_is_reported_with_its_field(
    read: Callable[[bytes], Any], said: str, problem: str
) -> None:
    with pytest.raises(BadExtenderResponse) as refused:
        read(said.encode("latin-1"))
    assert problem in str(refused.value)


def test_an_error_of_the_extender_is_its_own_word() -> None:
    for read in (by_name, bound):
        with pytest.raises(ExtenderFailed, match=r"^no licence left$"):
            read(b'{"Error": "no licence\\nleft"}')
    bound(b'{"error": ""}')


def test_reasons_of_extenders_are_short_and_printable() -> None:
    said = json.dumps({"failedNodes": {"a": "x" * 10_000, "b": "\x1b[31m"}})
    _, refused = by_name(said.encode())
    assert len(refused["a"].text) == 256
    assert refused["b"].text == "\\x1b[31m"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    *("nodenames", "Nodes", "items", "metadata", "name", "failedNodes", "error", "a"),
                    *("host", "score", "NodeNameToMetaVictims", "n", "pods", "uid"),
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_answer_breaks_its_reader(said: Any) -> None:
    for read in (by_name, scored, cleared, bound, lambda text: filtered(text, SENT, by_name=False)):
        told = ""
        try:
            read(json.dumps(said).encode())
        except (BadExtenderResponse, ExtenderFailed) as error:
            told = str(error)
        assert told.isprintable()


def test_a_large_answer_is_read_where_it_is_one_of_nodes() -> None:
    node = {"metadata": {"name": "a", "annotations": {"x": "y" * 200}}, "status": {"images": ["z" * 60] * 2}}
    items = [{**node, "metadata": {**node["metadata"], "name": f"n{number}"}} for number in range(4000)]
    text = json.dumps({"nodes": {"items": items}}).encode()
    assert len(text) > 1 << 20
    left, refused = filtered(text, [f"n{number}" for number in range(4000)], by_name=False)
    assert (len(left), refused) == (4000, {})


def test_a_value_in_eight_bytes_is_not_too_many() -> None:
    """As many as a large answer may have, and one more."""
    count = 1 << 17
    brackets, commas = 3, count - 1
    text = b'{"nodes": {"items": [' + b",".join([b"1"] * count)
    size = 8 * (brackets + commas)
    most = text + b" " * (size - len(text) - 3) + b"]}}"
    assert len(most) == size > 1 << 20
    with pytest.raises(BadExtenderResponse, match="items"):
        filtered(most, ["a"], by_name=False)
    with pytest.raises(BadExtenderResponse, match=f"{brackets + commas} values in {size - 1} bytes"):
        filtered(most.replace(b" ]", b"]"), ["a"], by_name=False)


@pytest.mark.parametrize("value", [b"[]", b"{}", b'""', b"1"])
def test_millions_of_values_are_refused_before_they_take_memory(value: bytes) -> None:
    text = b'{"nodes": {"items": [' + b",".join([value] * (1 << 20)) + b"]}}"
    with pytest.raises(BadExtenderResponse, match="too many to be one"):
        filtered(text, ["a"], by_name=False)
