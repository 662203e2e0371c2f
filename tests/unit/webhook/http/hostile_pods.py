"""Reviews of pods, and envelopes, made to cost as much as they can; of other objects: `hostile`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scheduler_core.decoding import MOST_LEVELS
from scheduler_core.model.pods.use import MAX_AMOUNTS, MAX_CONTAINERS
from tests.unit.webhook.http import hostile
from tests.unit.webhook.http.hostile import (
    HALF,
    LONG,
    MEBI,
    MOST,
    POD,
    amounts,
    many,
    nested,
    obj,
    review,
    text,
)
from webhook.http.body import MAX_BODY

# As deep as a list in a pod may be: the review, its request and the pod are around it.
DEEP = MOST_LEVELS - 4
PLAIN = text({"containers": [{"name": "c", "image": "i"}]})
GROUP_NAME = "scheduling.k8s.io/group-name"
OWNER = {"kind": "T", "name": "t", "uid": "t", "controller": True, "apiVersion": "a.b/v1"}


def containers(count: int, value: str = "{}", **more: Any) -> list[dict[str, Any]]:
    """Containers with requests and limits that differ."""

    def one(i: int) -> dict[str, Any]:
        some = {"cpu": value.format(i), "memory": value.format(i)}
        return {"name": f"c{i}", "image": "i", "resources": {"requests": some, "limits": some}, **more}

    return [one(i) for i in range(count)]


def asking(requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A container that asks."""
    return {"resources": {"requests": requests}, **more}


def specs() -> Iterator[tuple[str, str]]:
    """Specs of pods."""
    few, each = MAX_CONTAINERS, MAX_AMOUNTS // MAX_CONTAINERS
    for count in (few, 10_000):
        some = containers(count)
        yield f"{count} containers", text({"containers": some})
        yield f"{count} init containers", text({"containers": [], "initContainers": some})
        sidecars = containers(count, restartPolicy="Always")
        yield f"{count} sidecars", text({"containers": [], "initContainers": sidecars})
        yield f"{count} ephemeral containers", text({"containers": [], "ephemeralContainers": some})
    for name, value in (("digits", "{:064d}"), ("exponents", "1e{:060d}"), ("fractions", ".{:060d}Ki")):
        for count in (few, 10_000):
            differing = [
                asking({f"e.com/r{j}": value.format(i * 10 + j) for j in range(each)}) for i in range(count)
            ]
            yield f"{count} containers with {name}", text({"containers": differing[: MOST // 10]})
    for extra in ({}, {"restartPolicy": "Always"}):
        unlike = [asking({f"e.com/r{i}-{j}": "1" for j in range(each)}, **extra) for i in range(few)]
        yield f"unlike containers {extra}", text({"containers": unlike, "initContainers": unlike[: few // 2]})
        yield f"unlike init containers {extra}", text({"containers": [], "initContainers": unlike})
    yield "one container with all amounts", text({"containers": [asking(amounts(MAX_AMOUNTS))]})
    yield "100,000 resources", text({"containers": [asking(amounts(100_000))]})
    yield "overhead of 100,000 resources", text({"containers": [], "overhead": amounts(100_000)})
    for count in (MOST // 2, 1_000_000):
        yield f"{count} empty containers", f'{{"containers":[{many(count, "{}")}]}}'
        claims = f'{{"containers":[{{"resources":{{"claims":[{many(count, "{}")}]}}}}]}}'
        yield f"{count} claims", claims
        yield f"{count} unknown fields", text({"containers": [], **amounts(count // 4, name="f{}")})
    yield "containers of nothing", f'{{"containers":[{many(MOST // 4, text(asking({})))}]}}'
    yield "ports", text({"containers": [{"ports": [{"hostPort": i} for i in range(MOST // 2)]}]})
    for value in (f'"{LONG}"', LONG, f"0.{LONG}", f"1e{LONG}", "-" * MEBI):
        yield (
            f"a quantity {value[:9]}...",
            f'{{"containers":[{{"resources":{{"requests":{{"cpu":{value}}}}}}}]}}',
        )
    for digits, count in (("9" * 4000, 800), ("0." + "9" * 4000, 800), ("0." + "9" * 700, 1_000)):
        numbers = many(count, f'{{"resources":{{"requests":{{"cpu":{digits}}}}}}}')
        yield f"numbers of {len(digits)} digits", f'{{"containers":[{numbers}]}}'
    yield "a scheduler name of 3 MiB", text({"schedulerName": LONG, "containers": []})


def metas() -> Iterator[tuple[str, str]]:
    """Metadata of pods."""
    for field in ("annotations", "labels"):
        for count in (MOST - 100, 250_000):
            yield f"{count} {field}", f'"{field}":{text({f"k{i}": "v" for i in range(count)})}'
    yield (
        "one key many times",
        f'"annotations":{{{many(MOST - 100, chr(34) + "k" + chr(34) + ":" + chr(34) * 2)}}}',
    )
    yield "an annotation of 3 MiB", f'"annotations":{text({"k": LONG})}'
    yield "an annotation of escapes", '"annotations":{"k":"' + "\\u0041" * 500_000 + '"}'
    yield "a label of a group of 3 MiB", f'"labels":{text({"scheduling.x-k8s.io/pod-group": LONG})}'
    yield "a group name of 3 MiB", f'"annotations":{text({GROUP_NAME: LONG})}'
    yield "a group name of hyphens", f'"annotations":{text({GROUP_NAME: "a" + "-" * 3 * MEBI})}'
    yield "a group name of controls", f'"annotations":{text({GROUP_NAME: chr(1) * (MEBI // 2)})}'
    yield "30,000 owners", f'"ownerReferences":{text([{"kind": "Job", "name": "j", "uid": "u"}] * 30_000)}'
    for field in ("apiVersion", "name", "kind", "uid"):
        yield f"an owner's {field} of 3 MiB", f'"ownerReferences":{text([{**OWNER, field: LONG}])}'


def pods() -> Iterator[tuple[str, bytes]]:
    """New, resized and moved pods."""
    for name, spec in specs():
        yield name, review(POD, obj(POD, spec))
        yield f"{name}, resized", review(POD, obj(POD, spec), obj(POD, PLAIN), subResource="resize")
    for name, meta in metas():
        yield name, review(POD, obj(POD, PLAIN, meta))
        if len(meta) < HALF:
            yield f"{name}, moved", review(POD, *[obj(POD, PLAIN, meta)] * 2)
    rests = {
        "deep and unread": nested(DEEP),
        "deep many times": f"[{many(200, nested(DEEP))}]",
        "deep throughout": nested(DEEP - 4, inner=many(300_000, nested(4))),
        "too deep": nested(1_000_000),
        "too deep objects": hostile.objects(300_000),
        "numbers": text(list(range(MOST - 100))),
        "a million numbers": text(list(range(1_000_000))),
        "white space": " " * 6 * MEBI + "1",
    }
    for name, rest in rests.items():
        yield name, review(POD, obj(POD, PLAIN, rest=f'"x":{rest}'))
    yield "too deep containers", review(POD, obj(POD, f'{{"containers":{nested(1_000_000)}}}'))
    yield "both large", review(POD, *[obj(POD, PLAIN, f'"annotations":{{"k":"{"x" * (HALF - 200)}"}}')] * 2)
    reporting = [{"name": f"c{i}", "allocatedResources": {"cpu": f"{i}"}} for i in range(30_000)]
    reports = {
        "statuses": {"containerStatuses": reporting},
        "conditions": {"conditions": [{"type": f"t{i}", "status": "True"} for i in range(60_000)]},
        "allocated": {"allocatedResources": amounts(100_000)},
    }
    whole = {"containers": containers(MAX_CONTAINERS), "resources": asking({"cpu": "1"})["resources"]}
    for name, status in reports.items():
        made = obj(POD, whole, rest=f'"status":{text(status)}')
        yield f"status of {name}", review(POD, made, obj(POD, PLAIN), subResource="resize")


def envelopes() -> Iterator[tuple[str, bytes]]:
    """What is no object but beside it, and what is no review."""
    pod = obj(POD, PLAIN)
    for field in ("uid", "operation", "namespace", "name", "subResource"):
        yield f"{field} of 6 MiB", review(POD, pod, **{field: "x" * 6 * MEBI})
    yield "a namespace of control characters", review(POD, pod, namespace="\x01" * MEBI)
    yield "a user of 6 MiB", review(POD, pod, userInfo={"username": "x" * 6 * MEBI})
    yield "a user of control characters", review(POD, pod, userInfo={"username": "\x01" * MEBI})
    yield "a user in many groups", review(POD, pod, userInfo={"groups": ["g"] * 500_000})
    yield "options", review(POD, pod, options={f"k{i}": i for i in range(200_000)})
    yield "a kind of 6 MiB", review(("v1", "x" * 6 * MEBI), pod)
    yield "an API version of 6 MiB", review(POD, pod).replace(b"admission.k8s.io/v1", b"x" * 6 * MEBI)
    yield "keys without end", b'{"request":{' + many(300_000, '"k":0').encode() + b"}}"
    yield "requests without end", b"{" + b",".join([b'"request":{"uid":"x"}'] * 300_000) + b"}"
    for opening in (b"[", b'{"a":', b'{"request":', b'{"request":{"object":'):
        yield f"{opening.decode()} without end", (opening * (6 * MEBI // len(opening)))
    yield "spaces", b" " * 7 * MEBI
    yield "zeros", b"\x00" * 7 * MEBI
    yield "a text without end", b'{"request":{"uid":"' + b"x" * 6 * MEBI
    yield "escapes without end", b'{"request":{"uid":"' + b"\\u0041" * MEBI + b'"}}'
    yield "a number without end", b'{"request":{"uid":' + b"9" * 6 * MEBI + b"}}"
    yield "no UTF-8", b'{"request":{"uid":"' + b"\xff" * 6 * MEBI + b'"}}'


def everything() -> Iterator[tuple[str, bytes]]:
    """All of them, each below the limit of bodies."""
    for make in (pods, hostile.quotas, hostile.groups, hostile.topologies, envelopes):
        for name, body in make():
            assert len(body) <= MAX_BODY, (name, len(body))
            yield f"{make.__name__}: {name}", body
