"""Write the chart's webhooks from `scheduler_core.model.admission_webhooks`, which is their one source.

    python -m tests.tools.chart_webhooks

What only an installation knows is filled in by the chart: the Service and the exempt namespaces; `path` is
what the Service is asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from scheduler_core.model.admission_webhooks import (
    WebhookEndpoint,
    mutating_configuration,
    validating_configuration,
)

FILE = Path(__file__).parents[2] / "charts" / "muster" / "files" / "webhooks.yaml"
HEADER = """\
# Written by tests/tools/chart_webhooks.py from scheduler_core/model/admission_webhooks.py; do not edit.
"""


def text() -> str:
    """The file as it should be."""
    nowhere = WebhookEndpoint(b"")
    found = [
        _reduced(validating_configuration(nowhere, [])),
        _reduced(mutating_configuration(nowhere, [])),
    ]
    return HEADER + yaml.safe_dump({"configurations": found}, sort_keys=False, width=110)


def _reduced(configuration: dict[str, Any]) -> dict[str, Any]:
    for webhook in configuration["webhooks"]:
        webhook["path"] = webhook.pop("clientConfig")["service"]["path"]
    return configuration


if __name__ == "__main__":
    FILE.write_text(text())
