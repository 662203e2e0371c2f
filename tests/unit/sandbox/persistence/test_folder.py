"""The folder of a kept cluster: who may use it, and what it refuses."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.persistence.folder import FolderInUse, KeptFolder, KeptSettings
from scheduler_core.errors import MusterError

SETTINGS = KeptSettings(port=1234, token="t", nodes=4, topology="d")


def test_settings_are_there_after_a_complete_start(tmp_path: Path) -> None:
    with KeptFolder(tmp_path / "deep" / "kept") as folder:
        assert folder.settings is None
        folder.complete(SETTINGS)
    with KeptFolder(folder.path) as again:
        assert again.settings == SETTINGS
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert (folder.path / "cluster.json").stat().st_mode & 0o777 == 0o600


def test_an_incomplete_start_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    with KeptFolder(tmp_path) as folder:
        folder.generation.writes.write_bytes(b"something half done")
    with KeptFolder(tmp_path) as again:
        assert again.settings is None
        assert again.restored.objects == {}


def test_a_second_process_is_told_who_uses_it(tmp_path: Path) -> None:
    with KeptFolder(tmp_path), pytest.raises(FolderInUse) as refused:
        KeptFolder(tmp_path).__enter__()
    assert str(refused.value) == f"{tmp_path} is used by process {os.getpid()}"
    with KeptFolder(tmp_path):
        pass


def _completed(path: Path) -> None:
    with KeptFolder(path) as folder:
        folder.complete(SETTINGS)


def _newer(path: Path) -> None:
    _completed(path)
    file = path / "cluster.json"
    file.write_text(file.read_text().replace('"format": 1', '"format": 2'))


def _without_objects(path: Path) -> None:
    _completed(path)
    (path / "objects.0").unlink()


REFUSED: list[tuple[str, Callable[[Path], object], str]] = [
    (
        "files of something else",
        lambda path: (path / "thesis.tex").touch(),
        "{0} has files that are not of a sandbox (thesis.tex); name an empty or a new folder",
    ),
    ("a newer format", _newer, "{0}/cluster.json: has format 2; this muster-sandbox reads format 1"),
    ("no objects", _without_objects, "{0}: lacks the file objects.N with the objects of the cluster"),
    (
        "settings that are no JSON",
        lambda path: (_completed(path), (path / "cluster.json").write_text("{")),
        "{0}/cluster.json: Input data was truncated",
    ),
]


@pytest.mark.parametrize(("sentence", "make", "text"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_folder_that_cannot_be_used_is_named(
    sentence: str, make: Callable[[Path], object], text: str, tmp_path: Path
) -> None:
    make(tmp_path)
    with pytest.raises(MusterError) as refused:
        KeptFolder(tmp_path).__enter__()
    assert str(refused.value) == text.format(tmp_path), sentence


def test_a_path_that_is_no_folder_says_what_helps(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MusterError) as refused:
        KeptFolder(tmp_path / "file" / "kept").__enter__()
    problem = "cannot keep a cluster here: Not a directory; name a folder that you can write to"
    assert str(refused.value) == f"{tmp_path}/file/kept: {problem}"
