"""Lines of progress: rewritten on a terminal, few elsewhere; and what a program's last words mean."""

from __future__ import annotations

import io
import sys
from itertools import count

import pytest

from tests.tools import failures, go_build
from tests.tools.progress import Line, TookTooLong, watch


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Lines:
    """Keeps a program's lines."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def notice(self, line: str) -> None:
        self.seen.append(line)

    def state(self, seconds: float) -> str:
        return f"{len(self.seen)} lines, {seconds:.0f} s"


def test_elsewhere_than_on_a_terminal_a_line_is_printed_every_four_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = count()
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    stream = io.StringIO()
    line = Line(stream)
    for number in range(10):
        line.show(f"{number} s")
    line.end("done")
    assert stream.getvalue() == "0 s\n4 s\n8 s\ndone\n"


def test_on_a_terminal_the_line_is_rewritten_cut_to_the_width_and_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "8")
    stream = Terminal()
    line = Line(stream)
    line.show("123456789")
    line.show("1")
    line.end("done")
    assert stream.getvalue() == "\r\x1b[K1234567\r\x1b[K1\r\x1b[Kdone\n"


def test_a_watched_program_gives_its_code_and_both_its_outputs() -> None:
    lines = Lines()
    script = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)"
    ended = watch([sys.executable, "-c", script], lines, Line(io.StringIO()), what="it")
    assert (ended.code, ended.lines, lines.seen) == (3, ("out", "err"), ["out", "err"])


def test_a_program_that_takes_too_long_is_ended() -> None:
    with pytest.raises(TookTooLong):
        watch(["sleep", "60"], Lines(), Line(io.StringIO()), what="it", timeout=0.1)


def test_packages_are_counted_against_all_with_the_expected_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    packages = go_build.Packages()
    packages.notice("go: downloading k8s.io/kubernetes v1.36.3")
    assert packages.state(4) == "1 module downloaded, 4 s"
    packages.total = 900
    for number in range(80):
        packages.notice(f"k8s.io/api/v{number}")
    assert packages.state(63) == "80 of 900 packages, 63 s (about 2 minutes on 2 cores, once)"
    for number in range(370):
        packages.notice(f"k8s.io/apps/v{number} [k8s.io/apps.test]")
    assert packages.state(180) == "450 of 900 packages, 180 s (about 3 minutes more)"
    packages.notice("# k8s.io/api: a message of the compiler")
    assert packages.seen == 450
    packages.seen = 900
    assert packages.state(181) == "linking, 181 s"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("write /cache/b001: no space left on device", "no space is left on the disk"),
        (
            'Get "https://registry/x": proxyconnect tcp: dial tcp 127.0.0.1:9: connect',
            "the proxy does not answer",
        ),
        ("tls: failed to verify certificate: x509: certificate signed by unknown", "is not trusted"),
        ("dial tcp: lookup registry: no such host", "the package registry does not answer"),
        (
            "ERROR: No matching distribution found for numpy",
            "lacks it or does not answer (HTTPS_PROXY is not set)",
        ),
        ("ERROR: no wheel\nhint: none", "no wheel"),
        ("first\nlast", "last"),
        ("", "it printed nothing"),
    ],
)
def test_a_failure_is_explained(lines: str, said: str) -> None:
    assert said in failures.explain(lines.splitlines(), {})


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://me:secret@proxy:3128", "http://me:***@proxy:3128"),
        ("http://me:se@cr:et@proxy", "http://me:***@proxy"),
        ("http://me@proxy:3128", "http://me@proxy:3128"),
        ("http://proxy:3128", "http://proxy:3128"),
        ("me:secret@proxy", "me:***@proxy"),
    ],
)
def test_a_password_is_never_shown(address: str, shown: str) -> None:
    assert failures.without_password(address) == shown
