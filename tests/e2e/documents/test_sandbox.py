"""The README's ten minutes and the pages with the rules, pasted block by block into one sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.documents.reader import Reader
from tests.support.pasted_pages import RULES, in_the_sandbox, story

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900), pytest.mark.long]


def test_the_pages_that_a_reader_follows_in_a_sandbox(tmp_path: Path, served_by: str) -> None:
    with Reader(tmp_path, served_by) as reader:
        reader.follow(in_the_sandbox())
        for page in RULES:
            reader.follow(story(page))
