"""HTTPExtender, as in kube-scheduler: calls one extender, and handles failed calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from scheduler_core.app.extenders.endpoints import DEFAULT_SECONDS, caller_of
from scheduler_core.app.extenders.fair_workers import FairWorkers
from scheduler_core.app.extenders.messages import BadExtenderResponse, ExtenderFailed
from scheduler_core.app.extenders.metrics import ExtenderMetrics
from scheduler_core.config.schema import Extender
from scheduler_core.errors import MusterError
from scheduler_core.kube.http.caller import CONNECTION, TIMEOUT, Caller, CallFailed
from scheduler_core.model.pods.pod import Pod
from scheduler_core.plugins.extenders import is_interested

# Concurrent calls.
THREADS: Final = 16
# Of the pods of one namespace, whose calls may all take long.
MOST_OF_A_NAMESPACE: Final = 8
# Limit of a response, and the addition for each node or victim in the request.
_MOST_BYTES: Final = 1 << 20
_BYTES_PER_NAME: Final = 1 << 10
_BYTES_PER_NODE: Final = 1 << 16
_MOST_OF_ALL: Final = 32 << 20

T = TypeVar("T")


class ExtenderError(MusterError):
    """An extender gave no usable answer; the text names the extender, the call and the field.

    `maybe_accepted`: the extender may still do what it was asked for.
    """

    def __init__(self, problem: str, *, maybe_accepted: bool = False) -> None:
        self.maybe_accepted = maybe_accepted
        super().__init__(problem)


class HTTPExtender:
    """The extender with this number in the configuration, and its `workers`. Raises ConfigError."""

    def __init__(
        self, settings: Extender, number: int, metrics: ExtenderMetrics, monotonic: Callable[[], float]
    ) -> None:
        self.settings = settings
        self.url = settings.url_prefix
        self.workers = FairWorkers(
            THREADS,
            MOST_OF_A_NAMESPACE,
            f"extender-{number}",
            (settings.http_timeout or DEFAULT_SECONDS) / 2,
            monotonic,
        )
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
        """The parsed answer about `items` nodes or victims; None where the call failed and the failure is
        ignored.

        `ignored` is the reason to ignore a failure, if not the extender's own setting. Raises ExtenderError.
        """
        began, maybe_accepted = self._monotonic(), False
        try:
            return read(self._caller.post(verb, body, self._most(items)))
        except CallFailed as error:
            reason, problem = error.reason, str(error)
            maybe_accepted = error.sent and reason in (TIMEOUT, CONNECTION)
        except BadExtenderResponse as error:
            reason, problem = "answer", f"extender {self.url}/{verb}: {error}"
        except ExtenderFailed as error:
            reason, problem = "refused", f"extender {self.url}/{verb}: {error}"
        finally:
            self._metrics.called(self.url, verb, self._monotonic() - began)
        if forgive and self.settings.ignorable and not ignored:
            ignored = "the extender is ignorable"
        self._metrics.failed(self.url, verb, reason, problem, ignored)
        if forgive and ignored:
            return None
        raise ExtenderError(problem, maybe_accepted=maybe_accepted)

    def _most(self, items: int) -> int:
        """The size limit of a response about `items` nodes or victims."""
        each = _BYTES_PER_NAME if self.settings.node_cache_capable else _BYTES_PER_NODE
        return min(_MOST_BYTES + items * each, _MOST_OF_ALL)
