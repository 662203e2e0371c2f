"""Values: what is wrong is refused by name, and what the chart passes on is understood by the programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from kubectl_plugin.cluster.quota_history import PriceList, price_list
from scheduler_core.app.__main__ import main as scheduler
from tests.chart.rendering import CASES, CHART, NAMESPACE, helm, objects, one, values_of
from tests.support.every import every_case
from webhook.__main__ import serve as webhook

DEFAULTS = yaml.load((CHART / "values.yaml").read_text(), yaml.CSafeLoader)
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
PROGRAMS: dict[str, click.Command] = {"scheduler": scheduler, "webhook": webhook}

KINDS = "webhook.gangOwners.kinds[0]"
SHIP = f"{KINDS}.group=example.com,{KINDS}.kind=Ship,{KINDS}.resource=ships"
REFUSED = {
    "a misspelt value": ("schedular.replicas=2", "schedular"),
    "no replica at all": ("scheduler.replicas=0", "replicas"),
    "a text for a number": ("webhook.replicas=two", "replicas"),
    "a mode of certificates that nobody knows": ("certificates.mode=vault", "mode"),
    "an adoption that nobody knows": ("webhook.adoption=Always", "adoption"),
    "a failure policy of pods that nobody knows": (
        "webhook.pods.failurePolicy=Maybe",
        "failurePolicy",
    ),
    "a sum of min that nobody knows": ("webhook.sumOfMin=maybe", "sumOfMin"),
    "a rule for foreign pods that nobody knows": ("webhook.foreignPods=Deny", "foreignPods"),
    "leader election, which is the chart's": (
        "scheduler.config.leaderElection.leaderElect=false",
        "config",
    ),
    "every resource of a group": ("webhook.readableOwners[0].resources[0]=*", "resources"),
    "a field of an owner kind that nobody knows": (f"{SHIP},{KINDS}.minimun=spec.crew", "minimun"),
    "a condition on an owner without a rule": (f"{SHIP},{KINDS}.when[0].path=spec.mode", "when"),
    "a condition on an owner with two rules": (
        f"{SHIP},{KINDS}.when[0].path=spec.mode,{KINDS}.when[0].absent=true,{KINDS}.when[0].equals=spec.x",
        "when",
    ),
    "a truth value where an owner's text is compared": (
        f"{SHIP},{KINDS}.members[0].path=spec.on,{KINDS}.members[0].in[0]=true",
        "members",
    ),
    "an API group in upper case": (f"{SHIP},{KINDS}.group=Example.com", "group"),
    "no time at all for a victim": ("scheduler.evictionGraceLimitSeconds=0", "evictionGraceLimitSeconds"),
    "more than a year for a victim": (
        "scheduler.evictionGraceLimitSeconds=31536001",
        "evictionGraceLimitSeconds",
    ),
    "a digest that is none": ("image.digest=latest", "digest"),
    "a failure policy that nobody knows": (
        r"webhook.failurePolicies.podgroups\.validate\.muster\.dev=Sometimes",
        "failurePolicies",
    ),
    "another name that no event can carry": (f"scheduler.alsoKnownAs={{{'a' * 64}}}", "alsoKnownAs"),
    "another name with an empty part": ("scheduler.alsoKnownAs={a..b}", "alsoKnownAs"),
    "an address range that is none": ("networkPolicy.apiServerCIDRs[0]=everywhere", "apiServerCIDRs"),
    "a label of a dashboard that is none": ("grafanaDashboard.label=grafana dashboard", "label"),
    "a value of a label that is none": ("grafanaDashboard.labelValue=a b", "labelValue"),
    "a price with an exponent": ("console.prices.cpu=1e3", "cpu"),
    "a price below nothing": ("console.prices.cpu=-1", "cpu"),
    "a currency that fits no header": ("console.currency=doubloons", "currency"),
    "a class above what users may have": ("priorityClass.value=2000000000", "value"),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_refuses(sentence: str) -> None:
    setting, name = REFUSED[sentence]
    done = helm("template", "muster", str(CHART), "--set", setting)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr
    assert name in done.stderr


def test_refuses_another_name_that_a_profile_has() -> None:
    """The scheduler would not start."""
    done = helm("template", "muster", str(CHART), "--set", "scheduler.alsoKnownAs={a,muster-scheduler}")
    assert done.returncode != 0
    assert "scheduler.alsoKnownAs: a profile is called muster-scheduler already" in done.stderr


def test_refuses_a_price_that_would_be_rounded(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("console: {enabled: true, prices: {cpu: 0.0000015}}")
    done = helm("template", "muster", str(CHART), "-f", str(values))
    assert done.returncode != 0
    assert "console.prices: cpu: 1.5e-06 has more than six decimals" in done.stderr


def test_the_console_reads_the_prices(tmp_path: Path) -> None:
    text = one(objects("everything"), "ConfigMap", "muster-console-prices")["data"]["prices.yaml"]
    (tmp_path / "prices.yaml").write_text(text)
    assert price_list(str(tmp_path / "prices.yaml")) == PriceList(
        {
            "nvidia.com/gpu": Fraction("2.5"),
            "cpu": Fraction("0.03"),
            "memory": Fraction("0.000001"),
            "example.com/dongle": Fraction(12345678),
        },
        "EUR",
    )
    deployment = one(objects("everything"), "Deployment", "muster-console")
    spec = deployment["spec"]["template"]["spec"]
    (flag,) = (item for item in flags_of("everything", "console") if item.startswith("--prices="))
    (mount,) = (item for item in spec["containers"][0]["volumeMounts"] if item["name"] == "prices")
    assert flag == f"--prices={mount['mountPath']}/prices.yaml"
    assert {"name": "prices", "configMap": {"name": "muster-console-prices"}} in spec["volumes"]
    # Other prices make another pod: the console reads them when it starts.
    other = one(
        objects("everything", NAMESPACE, "--set", "console.prices.cpu=1"), "Deployment", "muster-console"
    )
    assert other["spec"]["template"]["metadata"] != deployment["spec"]["template"]["metadata"]


def test_a_console_without_prices_has_no_file_of_them() -> None:
    plain = objects("default", NAMESPACE, "--set", "console.enabled=true")
    assert "prices" not in yaml.safe_dump([item for item in plain if "console" in item["metadata"]["name"]])


def leaves(node: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in node.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, name))
        else:
            yield (*path, name)


@every_case("path", list(leaves(DEFAULTS)), ".".join)
def test_every_value_is_in_the_schema(path: tuple[str, ...]) -> None:
    node = SCHEMA
    for name in path:
        properties = node.get("properties", {})
        if name not in properties:
            # Inside an object that is passed on as it is.
            assert node.get("additionalProperties", True) is not False, ".".join(path)
            return
        node = properties[name]


def flags_of(case: str, component: str) -> list[str]:
    deployment = one(objects(case), "Deployment", f"muster-{component}")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["command"][0] == f"muster-{component}"
    return list(container["args"])


@pytest.mark.parametrize("component", PROGRAMS)
@pytest.mark.parametrize("case", CASES)
def test_the_program_understands_every_flag(case: str, component: str) -> None:
    program = PROGRAMS[component]
    with click.Context(program, info_name=component) as context:
        _, rest, _ = program.make_parser(context).parse_args(flags_of(case, component))
        values, _, order = program.make_parser(context).parse_args(flags_of(case, component))
        for parameter in order:
            parameter.handle_parse_result(context, values, [])
    assert rest == []


@pytest.mark.parametrize("case", CASES)
def test_values_files_change_something(case: str) -> None:
    """A values file that renders what the defaults render tests nothing."""
    asked = values_of(case)
    assert (not asked) == (case == "default")
    assert case == "default" or objects(case) != objects("default")


def test_documented_values_exist() -> None:
    document = (Path(CHART).parents[1] / "docs" / "install.md").read_text()
    table = document.partition("## Values")[2].partition("\n## ")[0]
    named = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    known = {".".join(path[: depth + 1]) for path in leaves(DEFAULTS) for depth in range(len(path))}
    assert named
    assert set(named) <= known
