"""Answers that are kept until their content changes, and the headers of all answers."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

# Answers that are kept: pages, viewers and filters.
_MOST: Final = 64
# Characters of a header with words.
_MOST_WORDS: Final = 1000

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With no-referrer, browsers would send forms with the origin `null`, as other sites can.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # A browser asks each time, and shows nothing of a console after its end.
    "Cache-Control": "private, no-cache",
}


class CachedAnswer(msgspec.Struct, frozen=True):
    """A body, the hash by which a browser knows it, its content type, headers of its own, and its status."""

    body: bytes
    etag: str
    kind: str
    headers: tuple[tuple[str, str], ...] = ()
    status: int = 200


def words_header(name: str, texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """A header with these texts on one line; none where they are empty. Headers have ASCII only."""
    words = "; ".join(" ".join(text.split()) for text in texts if text)
    return ((name, words.encode("ascii", "backslashreplace").decode()[:_MOST_WORDS]),) if words else ()


def etag_of(body: bytes) -> str:
    """The hash of a body."""
    return hashlib.blake2b(body, digest_size=12).hexdigest()


class AnswerCache:
    """The newest answers by what was asked, each with the version that it was made of. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[object, tuple[object, CachedAnswer]] = OrderedDict()

    def get(self, key: object, version: object) -> CachedAnswer | None:
        """The answer if it was made of this version."""
        with self._lock:
            made_of, answer = self._answers.get(key, (None, None))
            return answer if answer is not None and made_of == version else None

    def put(self, key: object, version: object, answer: CachedAnswer) -> None:
        """Keep an answer."""
        with self._lock:
            self._answers[key] = version, answer
            self._answers.move_to_end(key)
            if len(self._answers) > _MOST:
                self._answers.popitem(last=False)
