"""A Prometheus of a test's own, as a process: what it scrapes, and its HTTP API."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support.eventually import eventually
from tests.support.free_port import free_port

START_SECONDS = 120.0
ANSWER_SECONDS = 30.0


class QueryRefused(Exception):
    """A query that Prometheus does not accept, with what it said."""


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`. AssertionError where it is not installed."""
    found = shutil.which(name)
    assert found, f"{name} is not installed: make test-dashboards installs it"
    return found


class Prometheus:
    """The HTTP API of a server at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an expression now. Raises QueryRefused."""
        found = self._get("query", query=expression)
        if found["resultType"] == "scalar":
            return [{"metric": {}, "value": found["result"]}]
        result: list[dict[str, Any]] = found["result"]
        return result

    def query_range(self, expression: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """The series of an expression between two moments. Raises QueryRefused."""
        found = self._get("query_range", query=expression, start=start, end=end, step=step)
        result: list[dict[str, Any]] = found["result"]
        return result

    def label_values(self, label: str, metric: str) -> list[str]:
        """The values of a label, as Grafana's `label_values` asks for them."""
        values: list[str] = self._get(f"label/{label}/values", **{"match[]": metric})
        return values

    def targets(self) -> list[dict[str, Any]]:
        """The targets that it scrapes, with their health."""
        found: list[dict[str, Any]] = self._get("targets", state="active")["activeTargets"]
        return found

    def metadata(self) -> dict[str, Any]:
        """What scrapes told about metrics, by name; also about those without a series."""
        found: dict[str, Any] = self._get("metadata")
        return found

    def rules(self) -> dict[str, dict[str, Any]]:
        """The alerts that it evaluates, by name."""
        groups = self._get("rules", type="alert")["groups"]
        return {rule["name"]: rule for group in groups for rule in group["rules"]}

    def ready(self) -> bool:
        """Whether it answers."""
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=ANSWER_SECONDS) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _get(self, path: str, **arguments: object) -> Any:
        asked = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(asked, timeout=ANSWER_SECONDS) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refused:
            with refused:
                raise QueryRefused(f"{arguments}: {refused.read().decode()}") from None


@contextmanager
def prometheus(folder: Path, scraping: Mapping[str, Any], rules: Mapping[str, Any]) -> Iterator[Prometheus]:
    """A server with its data in `folder`, on a free port, until the block ends.

    `scraping` is its configuration without the rules, `rules` a file of rules as promtool reads it.
    """
    (folder / "rules.yaml").write_text(yaml.safe_dump(dict(rules)))
    configuration = folder / "prometheus.yaml"
    configuration.write_text(yaml.safe_dump({**scraping, "rule_files": ["rules.yaml"]}))
    port = free_port()
    command = [program("prometheus"), f"--config.file={configuration}"]
    command += [f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
    log = folder / "prometheus.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    running = Prometheus(f"http://127.0.0.1:{port}")

    def ready() -> bool:
        if process.poll() is not None:
            raise RuntimeError(log.read_text())
        return running.ready()

    try:
        eventually(ready, START_SECONDS)
        yield running
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait(60)
