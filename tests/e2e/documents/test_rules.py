"""The pages with the rules of quotas, gangs and topology, pasted block by block into one sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.documents.reader import Reader
from tests.support.pasted_pages import RULES, story

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_the_pages_with_the_rules(tmp_path: Path, served_by: str) -> None:
    with Reader(tmp_path, served_by) as reader:
        for page in RULES:
            reader.follow(story(page))
