"""Write the chart's rights for gangs from owners from the table of kinds, which is their one source.

python -m tests.tools.chart_gang_owners
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

from scheduler_core.model.kinds import POD_GROUPS
from webhook.owner_gangs.table import built_in

FILE = Path(__file__).parents[2] / "charts" / "muster" / "rbac" / "webhook-gang-owners.yaml"
HEADER = """\
# Written by tests/tools/chart_gang_owners.py from webhook/owner_gangs/kinds.yaml; do not edit.
# webhook.gangOwners.enabled: what owners of pods say about their gang, and the PodGroups made of it.
"""


def text() -> str:
    """The file as it should be."""
    kinds: dict[str, set[str]] = defaultdict(set)
    for entry in built_in().entries:
        kinds[entry.group].add(entry.resource)
    rules: list[dict[str, Any]] = [
        {"apiGroups": [group], "resources": sorted(names), "verbs": ["get"]} for group, names in kinds.items()
    ]
    verbs = ["get", "create", "patch", "delete"]
    rules.append({"apiGroups": [POD_GROUPS.group], "resources": [POD_GROUPS.plural], "verbs": verbs})
    return HEADER + yaml.safe_dump({"rules": rules}, sort_keys=False, width=110)


if __name__ == "__main__":
    FILE.write_text(text())
