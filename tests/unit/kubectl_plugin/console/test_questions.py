"""Questions to the live cluster: what comes back when their process fails, hangs, or has to end."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from kubectl_plugin.console.cluster.questions import QuestionRefused, Questions
from scheduler_core.answers.worlds import World
from scheduler_core.errors import MusterError
from tests.support.console_scene import Scene
from tests.support.eventually import eventually
from tests.support.left_behind import children, works


class Odd(MusterError):
    """An error of a question."""

    def __str__(self) -> str:
        return "two\nlines"


def refuses(world: World) -> str:
    raise Odd


def breaks(world: World) -> str:
    raise ZeroDivisionError


def dies(world: World) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def hangs(world: World) -> str:
    time.sleep(60)
    return ""


def hangs_below(world: World) -> str:
    """As a world that asks a process of its own."""
    if not os.fork():
        time.sleep(60)
        os._exit(0)
    return hangs(world)


REFUSED: list[tuple[Callable[[World], str], str]] = [
    (refuses, "it: two lines"),
    (breaks, "it: the process ended with status 1"),
    (dies, "it: the process ended with status -9"),
    (hangs, "it: no answer within 0.3 seconds"),
    (hangs_below, "it: no answer within 0.3 seconds"),
]


@pytest.mark.parametrize(("question", "problem"), REFUSED)
def test_a_question_that_fails_says_why(question: Callable[[World], str], problem: str) -> None:
    questions = Questions(Scene().watch.cluster)
    seconds = 0.3 if question in (hangs, hangs_below) else 60
    with pytest.raises(QuestionRefused) as refused:
        questions.ask("it", question, str, seconds=seconds)
    assert str(refused.value) == problem
    # What went wrong keeps no turn.
    assert [questions.ask("it", lambda world: "fine", str, seconds=60) for _ in range(5)] == ["fine"] * 5


def test_an_answer_may_be_longer_than_a_pipe() -> None:
    long = Questions(Scene().watch.cluster).ask("it", lambda world: "x" * 3_000_000, str, seconds=60)
    assert len(long) == 3_000_000


def test_a_question_cannot_change_the_cluster() -> None:
    scene = Scene()
    questions = Questions(scene.watch.cluster)

    def changes(world: World) -> str:
        scene.watch.cluster.quotas.clear()
        scene.watch.cluster.version = 4711
        return "done"

    before = scene.watch.cluster.version
    assert questions.ask("it", changes, str, seconds=60) == "done"
    assert scene.watch.cluster.version == before


@pytest.mark.parametrize("question", [hangs, hangs_below])
def test_the_end_of_a_console_ends_its_questions(question: Callable[[World], str]) -> None:
    questions = Questions(Scene().watch.cluster)
    # Servers of other tests may be children of this process, too.
    others = children()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(questions.ask, "it", question, str, seconds=50)

        def started() -> list[int]:
            own = children() - others
            below = {grandchild for child in own for grandchild in children(child)}
            return [*own, *below] if question is hangs or below else []

        working = eventually(started)
        questions.stop()
        with pytest.raises(QuestionRefused, match="status -9"):
            asked.result(10)
    assert eventually(lambda: not [child for child in working if works(child)])
    with pytest.raises(QuestionRefused, match="ended with status -9"):
        questions.ask("it", hangs, str, seconds=30)
    questions.stop()


def test_a_lock_that_another_thread_holds_delays_no_more_than_the_limit() -> None:
    questions, lock = Questions(Scene().watch.cluster), threading.Lock()

    def needs(world: World) -> str:
        with lock:
            return "never"

    with lock, pytest.raises(QuestionRefused, match=r"no answer within 0\.5 seconds"):
        questions.ask("it", needs, str, seconds=0.5)
