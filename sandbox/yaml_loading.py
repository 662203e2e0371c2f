"""The loader of YAML: libyaml's, ten times as fast as the one in Python, where PyYAML was built with it."""

from __future__ import annotations

from typing import Any, Final

import yaml

LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
