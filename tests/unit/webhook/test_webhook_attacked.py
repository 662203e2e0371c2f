"""Reviews of others are answered while two connections send the dearest requests that are known.

The webhook and the attackers are processes of their own. What is bounded is the webhook's own processor time,
as a share: the wall clock is also others'. `benchmarks/bench_webhook_attack.py` has the latencies.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from benchmarks.bench_webhook import Remote, envelope, pod
from tests.support.eventually import eventually
from tests.support.webhook_attackers import attacked
from tests.support.webhook_clients import Asker

REVIEW = envelope(pod(500))
ANSWERS = 200
MOST_OF_A_PROCESSOR = 0.35


@pytest.fixture
def remote() -> Iterator[Remote]:
    made = Remote()
    yield made
    made.close()


def test_two_attackers_take_nobody_his_answer_and_little_of_the_processor(remote: Remote) -> None:
    asker = Asker(remote.connect, REVIEW, path="/mutate?timeout=2s", pause=0.01)
    asker.start()
    with attacked(remote._port):
        remote.cpu()
        began, before = time.monotonic(), asker.answered
        assert eventually(lambda: asker.answered >= before + ANSWERS, timeout=120)
        share = remote.cpu() / (time.monotonic() - began)
    asker.stop()
    assert (asker.failures, asker.repeated) == ([], 0)
    assert share < MOST_OF_A_PROCESSOR
