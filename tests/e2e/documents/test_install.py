"""docs/install.md, and the README's "On your cluster", pasted block by block.

The cluster is a sandbox without Muster: Helm installs the chart, and the sandbox's kubelet makes its pods
ready.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.documents.installed import default_scheduler, docker_stand_in, programs_of_the_chart
from tests.e2e.documents.reader import Reader
from tests.support.pasted_pages import INSTALL, on_your_cluster, story

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900), pytest.mark.long]
CLUSTER = "source .venv/bin/activate\nmuster-sandbox up --nodes 3 --kubeconfig own.kubeconfig\n"


def test_the_pages_about_a_cluster_of_your_own(tmp_path: Path, served_by: str) -> None:
    values = {"REGISTRY": "registry.example.com", "/etc/kubernetes/webhooks": str(tmp_path / "webhooks")}
    with Reader(tmp_path, served_by, values) as reader:
        docker_stand_in(tmp_path / "tools")
        kubeconfig = reader.serve(CLUSTER)
        reader.use(kubeconfig)
        with default_scheduler(tmp_path, kubeconfig):
            reader.follow(story(INSTALL))
            install, *rest = on_your_cluster()
            reader.follow([install])
            with programs_of_the_chart(tmp_path, kubeconfig):
                reader.follow(rest)
