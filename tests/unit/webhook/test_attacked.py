"""Reviews of others are answered while two connections send the dearest requests that are known.

The webhook and the attackers are processes of their own. What is bounded is the webhook's own processor time:
the wall clock is also others'. `benchmarks/bench_webhook_attack.py` has the latencies.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.bench_webhook import Remote, envelope, pod
from tests.support.eventually import eventually
from tests.support.webhooks.attackers import attacked
from tests.support.webhooks.clients import Asker

REVIEW = envelope(pod(500))
ANSWERS = 80
# Of the processor, for an answer and for what attackers had meanwhile.
MOST_SECONDS = 0.05


@pytest.fixture
def remote() -> Iterator[Remote]:
    made = Remote()
    yield made
    made.close()


@pytest.mark.long
def test_two_attackers_prevent_no_answer_and_take_little_processor_time(remote: Remote) -> None:
    asker = Asker(remote.connect, REVIEW, path="/mutate?timeout=2s", pause=0.01)
    asker.start()
    with attacked(remote.port):
        remote.cpu()
        before = asker.answered
        assert eventually(lambda: asker.answered >= before + ANSWERS, timeout=120)
        answered = asker.answered - before
        spent = remote.cpu()
    asker.stop()
    assert (asker.failures, asker.repeated) == ([], 0)
    assert spent / answered < MOST_SECONDS
