from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import StatusError
from sandbox.kinds.builtin import EVENTS_V1, NODES, PODS
from sandbox.store.selectors import only_name, predicate

LABELS = {"app": "web", "tier": "gold", "rank": "5"}

LABEL_SELECTORS = [
    ("app=web", True),
    ("app==web,tier=gold", True),
    ("app!=web", False),
    ("other!=web", True),
    ("app in (db, web)", True),
    ("app notin (db)", True),
    ("other notin (db)", True),
    ("other in (db)", False),
    ("tier", True),
    ("!tier", False),
    ("!other,app", True),
    ("rank > 4", True),
    ("rank<5", False),
    ("app=", False),
    ("", True),
]


@pytest.mark.parametrize(("text", "matches"), LABEL_SELECTORS)
def test_label_selector(text: str, matches: bool) -> None:
    found = predicate(PODS, text, "")
    assert (found is None or found({"metadata": {"labels": LABELS}})) is matches


FIELD_SELECTORS = [
    (PODS, {"spec": {"nodeName": "n"}}, "spec.nodeName=n", True),
    (PODS, {"spec": {}}, "spec.nodeName=", True),
    (PODS, {"spec": {"nodeName": "n"}}, "spec.nodeName!=n,status.phase=Running", False),
    (NODES, {"spec": {}}, "spec.unschedulable=false", True),
    (NODES, {"spec": {"unschedulable": True}}, "spec.unschedulable!=true", False),
    (EVENTS_V1, {"regarding": {"name": "p"}}, "regarding.name=p", True),
    (EVENTS_V1, {"reason": "Failed"}, "reason=Scheduled", False),
]


@pytest.mark.parametrize(("kind", "obj", "text", "matches"), FIELD_SELECTORS)
def test_field_selector(kind: object, obj: dict[str, object], text: str, matches: bool) -> None:
    found = predicate(kind, "", text)  # type: ignore[arg-type]
    assert found is not None
    assert found({"metadata": {"name": "x"}, **obj}) is matches


@pytest.mark.parametrize("text", ["a b", "a=b=c", "in (a)", "a in b", ",", "=x"])
def test_an_unreadable_label_selector_is_the_clients_fault(text: str) -> None:
    with pytest.raises(StatusError) as refused:
        predicate(PODS, text, "")
    assert refused.value.code == 400


@given(st.text(alphabet="ab=!,() innot<>", max_size=20))
def test_no_selector_text_breaks_the_server(text: str) -> None:
    refused = 400
    found = None
    try:
        found = predicate(PODS, text, "")
    except StatusError as error:
        refused = error.code
    assert refused == 400
    assert found is None or found({"metadata": {}}) in (True, False)


def test_only_name_sees_through_exactly_one_name() -> None:
    assert only_name("metadata.name=web-1") == "web-1"
    assert only_name("metadata.name=a,status.phase=b") is None
    assert only_name("metadata.name!=a") is None
