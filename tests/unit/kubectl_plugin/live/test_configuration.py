"""Which configuration of the scheduler is in effect, as the cluster tells."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.kubectl_plugin.plugin_api import Api, Command, pod_object, quota_object

VALID = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: muster-scheduler}]
"""


def stored(text: str) -> dict[str, Any]:
    meta = {"namespace": "muster-system", "name": "muster-scheduler"}
    return {
        "metadata": {**meta, "labels": {"app.kubernetes.io/name": "muster"}},
        "data": {"config.yaml": text},
    }


@pytest.mark.parametrize(
    ("text", "assumed"),
    [(VALID, False), (VALID.replace("schedulerName", "scheduler"), True), (VALID + "profiles: []", True)],
    ids=["valid", "an unknown field", "no YAML that can be used"],
)
def test_a_stored_configuration_that_is_illegal_counts_as_none(
    api: Api, eq: Command, text: str, assumed: bool
) -> None:
    api.objects["elasticquotas"] = [quota_object("team-a", min={"cpu": "4"})]
    api.objects["pods"] = [pod_object("team-a", "train-0", node="", cpu="2")]
    api.objects["configmaps"] = [stored(text)]
    done = eq("what-if", "--delete", "pod/train-0")
    assert done.code == 0, done.err
    assert ("the built-in one is assumed" in done.err) is assumed
