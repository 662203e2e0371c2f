"""The runner of benchmarks: one that fails costs no other row, and every one has a small form."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from multiprocessing import get_context
from types import ModuleType

import pytest

from benchmarks import bench_cli, run
from benchmarks.support.row import NotHere, Row

KEPT = Row("kept", 5.0, "1/s", floor=1.0)
BELOW = Row("below its floor", 5.0, "1/s", floor=10.0)


def raises(error: BaseException) -> Callable[..., list[Row]]:
    def main(small: bool = False) -> list[Row]:
        raise error

    return main


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts benchmarks in place of those of the folder."""

    def put(**mains: Callable[..., list[Row]]) -> None:
        monkeypatch.setattr(run, "names", lambda: sorted(mains))
        for name, main in mains.items():
            module = ModuleType(f"benchmarks.bench_{name}")
            monkeypatch.setattr(module, "main", main, raising=False)
            monkeypatch.setitem(sys.modules, module.__name__, module)

    return put


def lines(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What the table says of each benchmark, without padding."""
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")][1:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {name: " ".join(filter(None, rest)) for name, *rest in cells}


@pytest.mark.parametrize("module", run.names())
def test_every_benchmark_has_a_small_form(module: str) -> None:
    main = importlib.import_module(f"benchmarks.bench_{module}").main
    assert str(inspect.signature(main)) == "(small: 'bool' = False) -> 'list[Row]'"


CASES = {
    "a benchmark that raises says so in its row": (
        raises(RuntimeError("two\nlines | and a bar")),
        "RuntimeError: two lines / and a bar FAILED",
        1,
    ),
    "one that gives no rows has failed": (lambda small: [], "it gave no rows FAILED", 1),
    "one that cannot run here is left out": (raises(NotHere("no server")), "no server left out", 0),
    "one below its floor is kept in the table": (
        lambda small: [BELOW],
        f"{BELOW.name} 5 1/s >= 10 MISSED",
        1,
    ),
}


@pytest.mark.parametrize(("main", "line", "code"), CASES.values(), ids=CASES)
def test_no_benchmark_costs_another_its_rows(
    benchmarks: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    main: Callable[..., list[Row]],
    line: str,
    code: int,
) -> None:
    benchmarks(a=lambda small: [KEPT], b=main, c=lambda small: [KEPT])
    assert run.main([]) == code
    assert lines(capsys) == {"a": "kept 5 1/s >= 1 ok", "b": line, "c": "kept 5 1/s >= 1 ok"}


def test_a_long_error_stays_on_its_line(
    benchmarks: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    benchmarks(a=raises(RuntimeError("x" * 1000)))
    assert run.main(["a"]) == 1
    assert len(lines(capsys)["a"]) < run.LONGEST_ERROR + 20


def test_a_module_that_cannot_be_imported_has_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "names", lambda: ["nowhere"])
    assert run.main([]) == 1
    assert lines(capsys)["nowhere"].endswith("FAILED")


def test_an_interrupt_ends_the_run(benchmarks: Callable[..., None]) -> None:
    benchmarks(a=raises(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        run.main([])


def test_the_small_form_is_asked_for_and_held_to_no_bound(
    benchmarks: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    benchmarks(a=lambda small: [BELOW] if small else [])
    assert run.main(["--small"]) == 0
    assert lines(capsys) == {"a": f"{BELOW.name} 5 1/s ok"}


def test_small_forms_run_side_by_side(
    benchmarks: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    both = get_context("fork").Barrier(2)

    def meets(small: bool = False) -> list[Row]:
        both.wait(60)
        return [KEPT]

    benchmarks(a=meets, b=meets)
    assert run.main(["--small"]) == 0
    assert list(lines(capsys)) == ["a", "b"]


def test_an_unknown_name_is_an_error_of_its_own(
    benchmarks: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    benchmarks(a=lambda small: [KEPT])
    assert run.main(["b"]) == 2
    assert "no benchmark b; there are: a" in capsys.readouterr().err


def test_the_stand_in_server_answers_for_kinds_that_it_does_not_know() -> None:
    assert [row.name for row in bench_cli.main(small=True)][-1].startswith("get -A -o yaml")
