"""Helm as a test uses it: the chart's objects for some values, and what Helm says of wrong ones."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tests.tools.build import have

CHART = Path(__file__).parents[2] / "charts" / "muster"
VALUES = Path(__file__).parent / "values"
CASES = sorted(path.stem for path in VALUES.glob("*.yaml"))
NAMESPACE = "muster-system"
HELM_SECONDS = 120

Obj = dict[str, Any]


def helm(*arguments: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm with a home of its own, so that nobody's repositories or plugins take part."""
    with tempfile.TemporaryDirectory(prefix="muster-helm-") as home:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HELM_")}
        environment |= {
            "HELM_CACHE_HOME": home,
            "HELM_CONFIG_HOME": home,
            "HELM_DATA_HOME": home,
            "KUBECONFIG": str(kubeconfig or Path(home, "none")),
            # It ends before its memory matters, and collects for a third of its time.
            "GOGC": "off",
        }
        return subprocess.run(
            [str(have("helm").path), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            text=True,
            capture_output=True,
            timeout=HELM_SECONDS,
        )


def succeed(*arguments: str, kubeconfig: Path | None = None) -> str:
    """What helm printed; an AssertionError with its words if it failed."""
    done = helm(*arguments, kubeconfig=kubeconfig)
    assert done.returncode == 0, f"helm {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}"
    return done.stdout


def values_of(case: str) -> Obj:
    """What a values file says."""
    found: Obj = yaml.load((VALUES / f"{case}.yaml").read_text(), yaml.CSafeLoader)
    return found


@functools.cache
def manifest(case: str, namespace: str = NAMESPACE, *extra: str) -> str:
    """The rendered text for one values file, named without its suffix."""
    values = str(VALUES / f"{case}.yaml")
    return succeed("template", "muster", str(CHART), "-n", namespace, "-f", values, *extra)


@functools.cache
def _parsed(case: str, namespace: str, *extra: str) -> bytes:
    """The objects as JSON, of which a copy is quickly made."""
    text = manifest(case, namespace, *extra)
    return msgspec.json.encode([found for found in yaml.load_all(text, yaml.CSafeLoader) if found])


def objects(case: str, namespace: str = NAMESPACE, *extra: str) -> list[Obj]:
    """The rendered objects; the caller's own, to be changed at will."""
    found: list[Obj] = msgspec.json.decode(_parsed(case, namespace, *extra))
    return found


def of_kind(found: list[Obj], kind: str) -> Iterator[Obj]:
    return (item for item in found if item["kind"] == kind)


def one(found: list[Obj], kind: str, name: str) -> Obj:
    """The only object of that kind and name."""
    (item,) = (item for item in of_kind(found, kind) if item["metadata"]["name"] == name)
    return item
