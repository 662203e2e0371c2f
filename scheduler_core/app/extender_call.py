"""One HTTP extender: how it is called, on threads of its own, and what becomes of a call that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from scheduler_core.app.extender_endpoints import caller_of
from scheduler_core.app.extender_metrics import ExtenderMetrics
from scheduler_core.app.extender_wire import BadAnswer, Refused
from scheduler_core.config.schema import Extender
from scheduler_core.errors import MusterError
from scheduler_core.kube.calling import CONNECTION, TIMEOUT, Caller, CallFailed
from scheduler_core.kube.workers import Workers
from scheduler_core.model.pod import Pod
from scheduler_core.plugins.extenders import is_interested

# Calls at once.
THREADS: Final = 16
# An answer has so many bytes at most, and so many more for each node or victim that it was asked about.
_MOST_BYTES: Final = 1 << 20
_BYTES_PER_NAME: Final = 1 << 10
_BYTES_PER_NODE: Final = 1 << 16
_MOST_OF_ALL: Final = 32 << 20

T = TypeVar("T")


class CallRefused(MusterError):
    """An extender gave no answer that can be used: the text names it, the call and the field.

    `maybe_accepted`: it may do what it was asked for all the same, later.
    """

    def __init__(self, problem: str, *, maybe_accepted: bool = False) -> None:
        self.maybe_accepted = maybe_accepted
        super().__init__(problem)


class ExtenderCall:
    """The settings of the extender of this number, and its `workers`. Raises ConfigError."""

    def __init__(
        self, settings: Extender, number: int, metrics: ExtenderMetrics, monotonic: Callable[[], float]
    ) -> None:
        self.settings = settings
        self.url = settings.url_prefix
        self.workers = Workers(THREADS, f"extender-{number}")
        self._caller: Caller = caller_of(settings, f"extenders[{number}]")
        self._metrics = metrics
        self._monotonic = monotonic

    def is_interested(self, pod: Pod) -> bool:
        return is_interested(self.settings, pod)

    def ask(
        self,
        verb: str,
        body: bytes,
        items: int,
        read: Callable[[bytes], T],
        ignored: str = "",
        *,
        forgive: bool = True,
    ) -> T | None:
        """What it says of so many items; None where it says nothing of use and may be ignored.

        `ignored` says why that is, if not because the extender is. Raises CallRefused.
        """
        began, maybe_accepted = self._monotonic(), False
        try:
            return read(self._caller.post(verb, body, self._most(items)))
        except CallFailed as error:
            reason, problem = error.reason, str(error)
            maybe_accepted = error.sent and reason in (TIMEOUT, CONNECTION)
        except BadAnswer as error:
            reason, problem = "answer", f"extender {self.url}/{verb}: {error}"
        except Refused as error:
            reason, problem = "refused", f"extender {self.url}/{verb}: {error}"
        finally:
            self._metrics.called(self.url, verb, self._monotonic() - began)
        if forgive and self.settings.ignorable and not ignored:
            ignored = "the extender is"
        self._metrics.failed(self.url, verb, reason, problem, ignored)
        if forgive and ignored:
            return None
        raise CallRefused(problem, maybe_accepted=maybe_accepted)

    def _most(self, items: int) -> int:
        """Bytes of an answer about so many items."""
        each = _BYTES_PER_NAME if self.settings.node_cache_capable else _BYTES_PER_NODE
        return min(_MOST_BYTES + items * each, _MOST_OF_ALL)
