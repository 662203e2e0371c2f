"""Build step of the wheel: the CustomResourceDefinitions of the chart become part of the package `sandbox`.

They stand once in the repository, in charts/muster/crds, where Helm wants them. Everything else about the
package is in pyproject.toml.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CRDS = Path(__file__).resolve().parent / "charts" / "muster" / "crds"


def take_crds(build: Path) -> None:
    """Copy the CRDs to where an installed package looks for them. `build`: what becomes the wheel."""
    shutil.copytree(CRDS, build / "sandbox" / "crds", dirs_exist_ok=True)


class BuildWithCrds(build_py):  # type: ignore[misc, unused-ignore]
    """Copies the packages, and the CRDs. An editable install finds them in the repository."""

    def run(self) -> None:
        """Called by setuptools."""
        super().run()
        if not self.editable_mode:
            take_crds(Path(self.build_lib))


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildWithCrds})
