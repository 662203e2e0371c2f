"""Reviews made to cost as much as they can, each below the limit of bodies: what a hostile client sends.

Names say what is large. All of them are bytes, as JSON with repeated keys has no other form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from scheduler_core.model.groups.topology import LARGEST_TREE, MOST_LEVELS
from webhook.http.admission_review import MAX_VALUES
from webhook.http.body import MAX_BODY

Kind = tuple[str, str]
POD: Final = ("v1", "Pod")
CONFIG_MAP: Final = ("v1", "ConfigMap")
NATIVE: Final = ("v1", "ResourceQuota")
QUOTA: Final = ("scheduling.x-k8s.io/v1alpha1", "ElasticQuota")
GROUP: Final = ("incubator.scheduling.k8s.io/v1alpha1", "PodGroup")
X_GROUP: Final = ("scheduling.x-k8s.io/v1alpha1", "PodGroup")
NATIVE_GROUP: Final = ("scheduling.k8s.io/v1beta1", "PodGroup")
CONSTRAINTS: Final = "muster.dev/topology-constraints"
MEBI: Final = 1 << 20
# Of one object, so that two of them and the envelope stay below the limit.
HALF: Final = MAX_BODY // 2 - 4096
# As many as are read at all, with room for the rest of the review.
MOST: Final = MAX_VALUES - 100
LONG: Final = "9" * 3 * MEBI


def text(value: Any) -> str:
    """Compact JSON."""
    return msgspec.json.encode(value).decode()


def many(count: int, entry: Callable[[int], str] | str) -> str:
    """`count` entries of a JSON list or object."""
    return ",".join([entry] * count if isinstance(entry, str) else map(entry, range(count)))


def nested(depth: int, opening: str = "[", closing: str = "]", inner: str = "") -> str:
    """A JSON value of so many levels."""
    return opening * depth + inner + closing * depth


def objects(depth: int) -> str:
    """A JSON object in which each holds the next."""
    return nested(depth - 1, '{"a":', "}", "{}")


def amounts(count: int, value: str = "{}", name: str = "e.com/r{}") -> dict[str, str]:
    """A resource list; `{}` is a number."""
    # Millions of them are made: faster than by `format`.
    (name, name_end), (value, *value_end) = name.split("{}"), value.split("{}")
    if not value_end:
        return {f"{name}{i}{name_end}": value for i in range(count)}
    return {f"{name}{i}{name_end}": f"{value}{i}{value_end[0]}" for i in range(count)}


def review(kind: Kind, new: str | None, old: str | None = None, **more: Any) -> bytes:
    """An AdmissionReview of the texts of objects."""
    group, _, version = kind[0].rpartition("/")
    said = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "operation": "CREATE" if old is None else "DELETE" if new is None else "UPDATE",
        "kind": {"group": group, "version": version, "kind": kind[1]},
        "namespace": "a",
        "name": "x",
        "userInfo": {"username": "tenant"},
        **more,
    }
    return (
        '{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":'
        f'{text(said)[:-1]},"object":{new or "null"},"oldObject":{old or "null"}}}}}'
    ).encode()


def obj(kind: Kind, spec: str | dict[str, Any] = "{}", meta: str = "", rest: str = "") -> str:
    """The text of an object of namespace a."""
    said = spec if isinstance(spec, str) else text(spec)
    return (
        f'{{"apiVersion":"{kind[0]}","kind":"{kind[1]}","metadata":{{"name":"x","namespace":"a","uid":"u"'
        f'{"," + meta if meta else ""}}},"spec":{said}{"," + rest if rest else ""}}}'
    )


def config_map(label: str, data: dict[str, str]) -> str:
    """A ConfigMap that Muster reads; what is not ASCII as escapes, which are longer."""
    escaped = json.dumps(data, separators=(",", ":"))
    return obj(CONFIG_MAP, meta=f'"labels":{{"{label}":""}}', rest=f'"data":{escaped}')


def quotas() -> Iterator[tuple[str, bytes]]:
    """Changes of ElasticQuotas and ResourceQuotas."""
    for count in (64, 60_000):
        both = obj(QUOTA, {"min": amounts(count), "max": amounts(count)})
        broken = obj(QUOTA, {"min": amounts(count, "9{}"), "max": amounts(count)})
        yield f"{count} resources", review(QUOTA, both)
        yield f"{count} resources, broken", review(QUOTA, broken)
        yield f"{count} resources, updated", review(QUOTA, broken, both)
        yield f"{count} resources, deleted", review(QUOTA, None, both)
    for count in (1024, 90_000):
        used = obj(QUOTA, rest=f'"status":{text({"used": amounts(count)})}')
        yield f"{count} used, deleted", review(QUOTA, None, used)
        yield f"{count} used, updated", review(QUOTA, used, used)
    long = f"{'a-' * 120}a.b/{'a_' * 30}a"
    yield "long resource names", review(QUOTA, obj(QUOTA, {"min": amounts(64, "9", f"x{{}}.{long}")}))
    yield "a resource name of 3 MiB", review(QUOTA, obj(QUOTA, {"min": {f"{'a-' * MEBI}/x": 1}}))
    yield "a quantity of 3 MiB", review(QUOTA, obj(QUOTA, {"min": {"cpu": LONG}}))
    yield "a name of 3 MiB", review(QUOTA, obj(QUOTA).replace('"name":"x"', f'"name":"{LONG}"'))
    for kind, field in ((QUOTA, "min"), (NATIVE, "hard")):
        for other in ("", "z"):
            said = [obj(kind, {field: {"cpu": "x"}, "y": amounts(45_000), "z": z}) for z in ("", other)]
            yield f"{kind[1]} unreadable before and after{other}", review(kind, said[0], said[1])
    for count in (1024, 90_000):
        for name in ("e.com/r{}", "requests.r{}"):
            hard = obj(NATIVE, {"hard": {"cpu": "0", **amounts(count, name=name)}})
            yield f"hard of {count} {name}", review(NATIVE, hard)
            yield f"hard of {count} {name}, updated", review(NATIVE, hard, hard)
    values = {"scopeName": "PriorityClass", "operator": "In", "values": ["v"] * (MOST // 64)}
    for count in (64, 40_000):
        yield f"{count} scopes", review(NATIVE, obj(NATIVE, {"scopes": ["a"] * count}))
        some = [values if count == 64 else {"scopeName": "a", "operator": "In"}] * count
        yield (
            f"{count} scope selectors",
            review(NATIVE, obj(NATIVE, {"scopeSelector": {"matchExpressions": some[: MOST // 6]}})),
        )


def asks() -> dict[str, str]:
    """Constraints on topologies."""
    strict = {"type": "pack", "hard": True, "partitions": 2, "min": 3, "max": 7, "factor": 2}
    return {
        "constraints of 30,000 levels": text({f"l{i}": {"type": "pack"} for i in range(30_000)}),
        "one level 30,000 times": f"{{{many(30_000, chr(34) + 'a' + chr(34) + ':{}')}}}",
        "constraints of 900 depths": objects(900),
        "constraints of 100,000 depths": nested(100_000),
        "constraints of brackets": "[" * 3 * MEBI,
        "constraints of numbers": text(list(range(10_000))),
        "a constraint of 3 MiB": f'{{"rack":{{"min":{LONG}}}}}',
        "constraints of 4,000 digits": f'{{"rack":{{"min":{"9" * 4000}}}}}',
        "a level of 3 MiB": text({LONG: {"type": "pack"}}),
        "a level of 60 KiB": text({"x" * 60_000: {"type": "pack"}}),
        "constraints of spaces": " " * 3 * MEBI,
        "strict at every level": text({f"l{i}": strict for i in range(7)}),
        "strict at one level": text({"l0": {"type": "spread", "partitions": 997, "min": 2, "factor": 3}}),
        "spread and counted": text({f"l{i}": {"type": "spread", "min": 2 + i, "max": 9} for i in range(7)}),
        "no small conflict": text({f"l{i}": {**strict, "max": 9999 - i, "min": 1} for i in range(7)}),
        "factors": text({f"l{i}": {"type": "pack", "factor": 2 + i, "min": 2} for i in range(7)}),
    }


def groups() -> Iterator[tuple[str, bytes]]:
    """Changes of PodGroups in every dialect."""
    for count in (64, 60_000):
        some = obj(GROUP, {"minMembers": 1, "totalResources": amounts(count)})
        yield f"{count} totals", review(GROUP, some)
        yield f"{count} totals, updated", review(GROUP, some, obj(GROUP, {"minMembers": 1}))
    full = [obj(GROUP, {"minMembers": n, "x": ["y"] * (MOST // 2)}) for n in (1, 2)]
    yield "a spec of many values, updated", review(GROUP, *full)
    yield "members without end", review(GROUP, obj(GROUP, f'{{"minMembers":{LONG}}}'))
    specs: dict[Kind, dict[str, Any]] = {
        GROUP: {"minMembers": 9999},
        X_GROUP: {"minMember": 9999},
        NATIVE_GROUP: {"schedulingPolicy": {"gang": {"minCount": 9999}}},
    }
    for name, wishes in asks().items():
        for kind, spec in specs.items():
            made = obj(kind, spec, f'"annotations":{text({CONSTRAINTS: wishes})}')
            yield f"{name} ({kind[0]})", review(kind, made)
        data = {"name": "g", "size": "9999", "constraints": wishes}
        yield f"{name} (ConfigMap)", review(CONFIG_MAP, config_map("sakkara.group", data))
    policy = f'"annotations":{text({"muster.dev/lifecycle-policy": LONG})}'
    yield "a policy of 3 MiB", review(GROUP, obj(GROUP, {"minMembers": 1}, policy))
    for size in (LONG, "9" * 4000, "\u0661" * MEBI):
        data = {"name": "g", "size": size}
        yield f"a size of {len(size)}", review(CONFIG_MAP, config_map("sakkara.group", data))


def trees() -> dict[str, tuple[str, str]]:
    """Levels and trees of topologies."""
    two, levels = text(["rack", "node"]), text([f"l{i}" for i in range(MOST_LEVELS)])
    bottom = text({f"n{i}": {} for i in range(LARGEST_TREE - 50)})
    line = nested(MOST_LEVELS - 2, '{"a":', "}", '{"n@":{}}')

    def branch(number: int) -> str:
        return f'"x{number}":{line.replace("@", str(number))}'

    return {
        **{
            f"{racks * 100} nodes": (
                two,
                text({f"r-{i}": {f"n-{i}-{j}": {} for j in range(100)} for i in range(racks)}),
            )
            for racks in (LARGEST_TREE // 101, 999)
        },
        "nodes of long names": (two, text({"r": {f"{i:031d}": {} for i in range(LARGEST_TREE - 50)}})),
        "150,000 nodes": (text(["node"]), text({f"node-{i}": {} for i in range(150_000)})),
        "all levels": (
            levels,
            nested(MOST_LEVELS - 1, '{"a":', "}", bottom),
        ),
        "all levels throughout": (levels, f"{{{many(LARGEST_TREE // MOST_LEVELS - 1, branch)}}}"),
        "900 levels": (text([f"l{i}" for i in range(900)]), objects(900)),
        "100,000 levels": (text([f"l{i}" for i in range(100_000)]), "{}"),
        "one node many times": (two, text({f"r{i}": {"n": {}} for i in range(LARGEST_TREE // 2)})),
        "one rack many times": (two, f"{{{many(60_000, chr(34) + 'r' + chr(34) + ':{}')}}}"),
        "names of 4,000 digits": (two, text({f"{i:04000d}": {f"n{i}": {}} for i in range(200)})),
        "names of 250 digits": (two, text({f"{i:0250d}": {f"n{i}": {}} for i in range(3_500)})),
        "names of digits and letters": (two, text({"1a" * (MEBI // 3): {"n": {}}})),
        "a number": (two, "9" * MEBI),
        "brackets": (two, "[" * MEBI),
        "a list": (two, f"[{many(MOST, str)[: MEBI - 9]}]"),
        "objects in a list": (two, f"[{many(MOST // 2, '{}')}]"),
        "spaces": (two, " " * (MEBI - 2) + "{}"),
    }


def topologies() -> Iterator[tuple[str, bytes]]:
    """Topology ConfigMaps."""
    for name, (levels, tree) in trees().items():
        made = config_map("sakkara.topology", {"level-names": levels, "tree": tree})
        yield name, review(CONFIG_MAP, made)
        if len(made) < HALF:
            yield f"{name}, updated", review(CONFIG_MAP, made, made)
    data = {"level-names": '["node"]', "tree": '{"n":{}}'}
    names = text([f"r{i}" for i in range(30_000)])
    yield (
        "30,000 resource names",
        review(CONFIG_MAP, config_map("sakkara.topology", {**data, "resource-names": names})),
    )
    for count in (MOST - 100, 250_000):
        keys = {f"k{i}": "v" for i in range(count)}
        yield f"{count} keys", review(CONFIG_MAP, config_map("sakkara.topology", keys))
