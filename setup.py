"""Build step of the wheel: what the sandbox needs of the chart becomes part of the package `sandbox`.

CustomResourceDefinitions and roles of users stand once in the repository, in charts/muster, where Helm wants
them. Everything else about the package is in pyproject.toml.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CHART = Path(__file__).resolve().parent / "charts" / "muster"


def take_chart(build: Path) -> None:
    """Copy parts of the chart to where an installed package looks for them; `build` becomes the wheel."""
    for folder in ("crds", "rbac"):
        shutil.copytree(CHART / folder, build / "sandbox" / folder, dirs_exist_ok=True)


class BuildWithChart(build_py):  # type: ignore[misc, unused-ignore]
    """Copies the packages, and the chart's parts. An editable install finds these in the repository."""

    def run(self) -> None:
        """Called by setuptools."""
        super().run()
        if not self.editable_mode:
            take_chart(Path(self.build_lib))


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildWithChart})
