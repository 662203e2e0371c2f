"""One test for many cases: it plays all, names each that fails, and can be asked for one seed alone."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Final

import pytest

SEED: Final = os.environ.get("MUSTER_SEED")
"""The only seed to play, in every test of seeds; a test that fails says how to set it."""

Test = Callable[..., None]
Case = tuple[str, dict[str, Any]]
_PART: Final = "part"
_LONGEST: Final = 300


def assert_no_faults(faults: Iterable[str]) -> None:
    """Fail with all faults, one a line."""
    __tracebackhide__ = True
    told = list(faults)
    if told:
        raise AssertionError("\n".join([f"{len(told)} faults:", *told]))


def every_case(
    names: str | Sequence[str], values: Iterable[Any], ids: Callable[[Any], str] | None = None
) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, but one test: for rules that many small things keep.

    A case is named by `ids`, by its `pytest.param`, or by its values.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = [_case(arguments, value, ids) for value in values]
    if not cases:
        raise ValueError("there are no cases")

    def decorated(test: Test) -> Test:
        @wraps(test)
        def loop(**fixtures: Any) -> None:
            __tracebackhide__ = True
            _play(test, fixtures, cases)

        loop.__signature__ = _signature(test, arguments)  # type: ignore[attr-defined]
        return loop

    return decorated


def every_seed(seeds: Sequence[int], *, each: int = 0, name: str = "seed") -> Callable[[Test], Test]:
    """One test that is called with every seed; with `each`, one for so many of them, for several workers."""
    played = [int(SEED)] if SEED else seeds
    if not played:
        raise ValueError("there are no seeds")
    size = each or len(played)
    parts = [played[start : start + size] for start in range(0, len(played), size)]

    def decorated(test: Test) -> Test:
        @wraps(test)
        def loop(**fixtures: Any) -> None:
            __tracebackhide__ = True
            part = fixtures.pop(_PART, played)
            _play(test, fixtures, [(f"{name} {seed}", {name: seed}) for seed in part], _again)

        if len(parts) == 1:
            loop.__signature__ = _signature(test, [name])  # type: ignore[attr-defined]
            return loop
        loop.__signature__ = _signature(test, [name], _PART)  # type: ignore[attr-defined]
        ids = [f"{name}s {part[0]} to {part[-1]}" if len(part) > 1 else f"{name} {part[0]}" for part in parts]
        return pytest.mark.parametrize(_PART, parts, ids=ids)(loop)

    return decorated


def _case(arguments: list[str], value: Any, ids: Callable[[Any], str] | None) -> Case:
    """The name of a case, and what the test is called with."""
    name, values = None, value
    if isinstance(value, type(pytest.param())):
        name, values = value.id, value.values
    elif len(arguments) == 1:
        values = (value,)
    told = name or (ids(value) if ids else ", ".join(map(str, values)))
    return told, dict(zip(arguments, values, strict=True))


def _signature(test: Test, without: list[str], also: str = "") -> inspect.Signature:
    """What pytest shall give to the loop: the test's other arguments."""
    signature = inspect.signature(test)
    kept = [parameter for name, parameter in signature.parameters.items() if name not in without]
    if also:
        kept.append(inspect.Parameter(also, inspect.Parameter.KEYWORD_ONLY))
    return signature.replace(parameters=kept)


def _play(
    test: Test, fixtures: dict[str, Any], cases: list[Case], again: Callable[[str], str] = lambda name: ""
) -> None:
    """Call the test with every case; fail with all that failed, from the failure of the first."""
    __tracebackhide__ = True
    failed: dict[str, Exception] = {}
    for name, arguments in cases:
        try:
            test(**fixtures, **arguments)
        except Exception as error:
            failed[name] = error
        except BaseException as error:
            # The limit of time, or Ctrl-C: no further case is played.
            error.add_note(f"while {name} was played")
            raise
    if failed:
        first = next(iter(failed))
        told = [f"{name}: {_brief(error)}" for name, error in failed.items()]
        message = [f"{len(failed)} of {len(cases)} fail, the first one as above:", *told, again(first)]
        raise AssertionError("\n".join(message).rstrip()) from failed[first]


def _brief(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = "; ".join(lines)
    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
    return kind + (told if len(told) <= _LONGEST else f"{told[:_LONGEST]}...")


def _again(name: str) -> str:
    """How to play the first seed that failed, alone."""
    node = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" (")[0].partition("[")[0]
    return f"Alone: MUSTER_SEED={name.rpartition(' ')[2]} .venv/bin/python -m pytest '{node}'"
