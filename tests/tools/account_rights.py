"""Write the rights that `kubectl elasticquota doctor` compares from the chart's, which are their one source.

    python -m tests.tools.account_rights

By part of the chart: each has a file of rules in `charts/muster/rbac/`.
"""

from __future__ import annotations

import json
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "charts" / "muster" / "rbac"
FILE = ROOT / "scheduler_core" / "answers" / "doctor" / "account_rights.json"
# What users get, and no program of ours.
FOR_USERS = ("users-edit", "users-view")


def text() -> str:
    """The file as it should be: a line per rule."""
    parts = []
    for path in sorted(RULES.glob("*.yaml")):
        if path.stem not in FOR_USERS:
            rules = yaml.load(path.read_text(), yaml.CSafeLoader)["rules"]
            lines = ",\n    ".join(json.dumps(rule, sort_keys=True) for rule in rules)
            parts.append(f"  {json.dumps(path.stem)}: [\n    {lines}\n  ]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text())
