"""A cluster at work, and a Prometheus that scrapes Muster's programs as the chart's ServiceMonitors say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.chart.rendering import NAMESPACE, Obj, objects, of_kind, one
from tests.dashboards.work import EXTENDED, Teams, at_work
from tests.support.clusters.cluster import Cluster, await_established
from tests.support.clusters.sandbox_process import sandbox_process
from tests.support.clusters.scheduler import scheduler
from tests.support.free_port import free_port
from tests.support.prometheus import Prometheus, prometheus
from tests.support.webhooks.process import WebhookProcess
from tests.tools.build import have

CRDS = Path(__file__).parents[2] / "charts" / "muster" / "crds"
SCRAPE_SECONDS = 1


@dataclass(frozen=True)
class Observed:
    """What the tests ask: Prometheus, since when it scrapes, and the pages that it scrapes."""

    prometheus: Prometheus
    since: float
    teams: Teams
    pages: tuple[str, ...]


def rule_groups() -> list[Obj]:
    """The groups of rules that the chart renders."""
    (rule,) = of_kind(objects("everything"), "PrometheusRule")
    groups: list[Obj] = rule["spec"]["groups"]
    return groups


def scraping(targets: dict[str, list[str]]) -> dict[str, Any]:
    """A configuration for the targets of each component, with the labels that Prometheus' operator adds."""
    rendered = objects("everything")
    jobs = []
    for component, addresses in targets.items():
        monitor = one(rendered, "ServiceMonitor", f"muster-{component}")
        (endpoint,) = monitor["spec"]["endpoints"]
        pods = [
            {
                "targets": [address],
                "labels": {
                    "namespace": NAMESPACE,
                    "pod": f"muster-{component}-{number}",
                    "service": f"muster-{component}",
                    "container": component,
                    "endpoint": endpoint["port"],
                },
            }
            for number, address in enumerate(addresses)
        ]
        jobs.append(
            {
                "job_name": f"muster-{component}",
                "metrics_path": endpoint["path"],
                "honor_labels": endpoint.get("honorLabels", False),
                "static_configs": pods,
            }
        )
    # A sample takes a turn of the loop: on a busy machine a scrape may take longer than a second.
    times = {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": "1s", "scrape_timeout": "1s"}
    return {"global": times, "scrape_configs": jobs}


def configuration(folder: Path, kubeconfig: Path) -> Path:
    """The chart's configuration of the scheduler, with an HTTP extender that does not answer."""
    config_map = one(objects("default"), "ConfigMap", "muster-scheduler")
    settings = yaml.safe_load(config_map["data"]["config.yaml"])
    settings["clientConnection"]["kubeconfig"] = str(kubeconfig)
    managed = {"name": EXTENDED, "ignoredByScheduler": True}
    extender = {"urlPrefix": f"http://127.0.0.1:{free_port()}", "filterVerb": "filter", "httpTimeout": "2s"}
    settings["extenders"] = [{**extender, "ignorable": True, "managedResources": [managed]}]
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


@pytest.fixture(scope="session")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """Two schedulers and a webhook that have worked, and go on."""
    folder = tmp_path_factory.mktemp("observed")
    with ExitStack() as running:
        server = running.enter_context(sandbox_process(folder, "--nodes", "3", "--node-cpu", "8"))
        cluster = Cluster(server, have("kubectl").path, "sandbox")
        cluster.kubectl("apply", "-f", str(CRDS))
        await_established(server)
        cluster.kubectl("create", "namespace", NAMESPACE)
        webhook = WebhookProcess(
            server, folder / "webhook.log", "--register", "--cert-dir", str(folder / "certificates")
        )
        running.callback(webhook.kill)
        config = f"--config={configuration(folder, server.kubeconfig)}"
        replicas = [
            running.enter_context(scheduler(cluster, folder, config, elect=True, name=name))
            for name in ("one", "two")
        ]
        targets = {
            "scheduler": [urlsplit(replica.url).netloc for replica in replicas],
            "webhook": [urlsplit(webhook.metrics).netloc],
        }
        watching = running.enter_context(prometheus(folder, scraping(targets), {"groups": rule_groups()}))
        since, teams = at_work(cluster, webhook.port, watching)
        pages = tuple(replica.page("/metrics")[1] for replica in (*replicas, webhook))
        yield Observed(watching, since, teams, pages)
