"""What the CRD files promise, read as they are: names, columns, a description and an example everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler_core.model import kinds
from tests.support.every import every_case

FOLDER = Path(__file__).parents[2] / "charts" / "muster" / "crds"
CRDS = {path.name: yaml.load(path.read_text(), yaml.CSafeLoader) for path in sorted(FOLDER.glob("*.yaml"))}
BY_KIND = {crd["spec"]["names"]["kind"]: crd for crd in CRDS.values()}
# The API server describes these itself, or they are parts of a described whole.
UNDESCRIBED = ("metadata",)


def schema(crd: dict[str, Any]) -> dict[str, Any]:
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def fields(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field below a schema, with its path; `[]` are items, `[*]` the values of a map."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from fields(child, f"{path}.{name}")
    for part, sign in (("items", "[]"), ("additionalProperties", "[*]")):
        if part in node:
            yield from fields(node[part], path + sign)


FIELDS = {
    f"{crd['spec']['names']['kind']}{path}": node
    for crd in CRDS.values()
    for path, node in fields(schema(crd), "")
    if path.rpartition(".")[2] not in UNDESCRIBED
}
# Weight and cost are plain numbers, with a fraction as a string.
QUANTITIES = {
    path: node
    for path, node in FIELDS.items()
    if node.get("x-kubernetes-int-or-string") and not path.endswith((".cost", ".weight"))
}

GOOD = ["0", "4", "1500m", "1.5", ".5", "1.", "+2", "16Gi", "100n", "3u", "2k", "5E", "1e3", "1E-9", "1e18"]
BAD = [
    "",
    "abc",
    "1 ",
    "1KiB",
    "1e99",
    "1e19",
    "1e9999999",
    "e3",
    "1.5.5",
    "NaN",
    "inf",
    "0x10",
    "1_0",
    "1Zi",
]


@every_case("path", FIELDS)
def test_field_is_described_with_an_example(path: str) -> None:
    text = FIELDS[path].get("description", "")
    assert text.endswith((".", '"', "}"))
    if "." in path:
        assert "Example: " in text


@every_case("path", [p for p in FIELDS if re.search(r"\.(spec|status)\.[^\[\]]*$", p)])
def test_optional_field_states_its_default(path: str) -> None:
    owner, _, name = path.rpartition(".")
    if name not in FIELDS[owner].get("required", ()):
        assert "Default: " in FIELDS[path]["description"]


@every_case("path", [p for p, node in FIELDS.items() if node["type" if "type" in node else "anyOf"]])
def test_number_or_quantity_states_its_unit(path: str) -> None:
    node = FIELDS[path]
    if node.get("type") in ("integer", "number"):
        assert "Unit: " in node["description"]
    if path in QUANTITIES:
        assert "own unit" in node["description"]


def pattern_of(node: dict[str, Any]) -> str:
    """The expression that a quantity matches: in a rule with a message for what users write, else plain."""
    if "pattern" in node:
        return str(node["pattern"])
    rule = node["x-kubernetes-validations"][0]["rule"]
    found = re.fullmatch(r"string\(self\)\.matches\('(.*)'\)", rule)
    assert found is not None, rule
    return found[1].replace(r"\\", "\\")


@pytest.mark.parametrize(("texts", "legal"), [(GOOD, True), (BAD, False)], ids=["good", "bad"])
@every_case("path", QUANTITIES)
def test_quantity_pattern(path: str, texts: list[str], legal: bool) -> None:
    pattern = pattern_of(QUANTITIES[path])
    assert [text for text in texts if bool(re.search(pattern, text)) is not legal] == []


def test_quantities_share_one_pattern() -> None:
    assert len({(pattern_of(node), node["maxLength"]) for node in QUANTITIES.values()}) == 1


@pytest.mark.parametrize(
    "resource",
    [kinds.ELASTIC_QUOTAS, kinds.QUOTA_GROUPS, kinds.POD_GROUPS, kinds.NODE_METRICS],
    ids=lambda r: r.kind,
)
def test_names_are_those_the_code_uses(resource: kinds.Resource) -> None:
    crd = BY_KIND[resource.kind]
    spec = crd["spec"]
    assert crd["metadata"]["name"] == f"{resource.plural}.{resource.group}"
    assert (spec["group"], spec["names"]["plural"]) == (resource.group, resource.plural)
    assert [v["name"] for v in spec["versions"] if v["storage"]] == [resource.version]
    assert (spec["scope"] == "Namespaced") is resource.namespaced
    assert "status" in spec["versions"][0]["subresources"]


@every_case("name", CRDS)
def test_file_is_named_after_what_it_defines(name: str) -> None:
    spec = CRDS[name]["spec"]
    assert name == f"{spec['group']}_{spec['names']['plural']}.yaml"


@every_case("kind", BY_KIND)
def test_protected_groups_carry_the_approval_annotation(kind: str) -> None:
    crd = BY_KIND[kind]
    protected = crd["spec"]["group"].endswith("k8s.io")
    assert ("api-approved.kubernetes.io" in crd["metadata"].get("annotations", {})) is protected


@pytest.mark.parametrize(
    ("kind", "short", "columns"),
    [
        ("ElasticQuota", ["eq", "eqs"], ["Used", "Min", "Max", "Age"]),
        ("PodGroup", ["pg", "pgs"], ["Phase", "Min", "Running", "Succeeded", "Failed", "Age"]),
        ("NodeMetric", None, ["CPU", "Memory", "Updated", "Age"]),
    ],
)
def test_short_names_and_columns(kind: str, short: list[str] | None, columns: list[str]) -> None:
    spec = BY_KIND[kind]["spec"]
    assert spec["names"].get("shortNames") == short
    shown = spec["versions"][0]["additionalPrinterColumns"]
    assert [column["name"] for column in shown if not column.get("priority")] == columns


@every_case("kind", BY_KIND)
def test_columns_point_at_fields_of_the_schema(kind: str) -> None:
    for column in BY_KIND[kind]["spec"]["versions"][0]["additionalPrinterColumns"]:
        path = re.sub(r"\[\?.*?\]", "[]", column["jsonPath"])
        assert path.startswith(".metadata.") or kind + path in FIELDS or path.endswith((".cpu", ".memory")), (
            path
        )


def test_maps_and_lists_are_bounded() -> None:
    unbounded = [
        path
        for path, node in FIELDS.items()
        if ("additionalProperties" in node and "maxProperties" not in node)
        or (node.get("type") == "array" and "maxItems" not in node and not path.endswith("podsMetric"))
    ]
    assert unbounded == []
