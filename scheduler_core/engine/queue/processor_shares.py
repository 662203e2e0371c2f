"""The processor time that attempts of each namespace took in vain, or took long for: who used up a share lets
others go first.

One tenant can have thousands of waiting pods that all differ, and make an event that may help each of them
twice a second; or thousands that start, with as many rules about other pods as are read. Without a bound, the
pods of all others would wait behind these attempts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

# What a namespace may use at once, in seconds, before others go first.
LIMIT_SECONDS: Final = 0.1
# What of it counts at most. Less would hide who of several namespaces used more: a namespace whose attempts
# are dear because of another one's pods would have as many attempts as that one, not as much time.
MOST_SECONDS: Final = 1.0
# Seconds of each second that it gets back.
SHARE: Final = 0.1


class _Spent(NamedTuple):
    seconds: float
    at: float


class ProcessorShares:
    """Seconds that failed attempts took, by namespace. Times are the caller's `now`.

    The engine measures no time: whoever runs it tells what attempts took. Where nobody does, the order of
    attempts depends on pods and quotas alone. `used_up`: the namespaces that others may go before; read only.
    `held_back`: these are not tried at all, as the caller knows that others may come.
    """

    def __init__(self) -> None:
        self._spent: dict[str, _Spent] = {}
        self.used_up: set[str] = set()
        self.held_back = False

    def spend(self, namespace: str, seconds: float, now: float) -> None:
        """Count the time of an attempt that placed and evicted nothing, or took long for it."""
        total = self.spent(namespace, now) + seconds
        self._spent[namespace] = _Spent(min(total, MOST_SECONDS), now)
        if total >= LIMIT_SECONDS:
            self.used_up.add(namespace)

    def spent(self, namespace: str, now: float) -> float:
        """The seconds that a namespace used and has not got back."""
        spent = self._spent.get(namespace)
        if spent is None:
            return 0.0
        # A clock that is set back gives nothing back, and takes nothing.
        left = spent.seconds - max(0.0, now - spent.at) * SHARE
        if left > 0:
            if now < spent.at:
                self._spent[namespace] = spent._replace(at=now)
            return left
        del self._spent[namespace]
        self.used_up.discard(namespace)
        return 0.0

    def over(self, namespace: str, now: float) -> bool:
        """Whether others go before a namespace."""
        return namespace in self.used_up and self.spent(namespace, now) > 0
