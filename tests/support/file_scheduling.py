"""xdist's scheduler by files, for runs that go on after a worker has died.

By itself, it gives the test during which a worker died to the next worker, and so on until there are no more
workers; and it gives out files whose tests have all run, or one with a single test to a worker that has no
other: a worker plays its last test when it has got the next one, so that it may wait without end.

Files that share a server of their own are one file here: with a worker for each, it would start in each.
"""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

# Folders with a control plane for all of their files, and a file that starts one itself.
TOGETHER: Final = ("tests/chart/live", "tests/e2e/owners")
ALONE: Final = ("tests/e2e/owners/test_tour.py",)


class FileScheduling(LoadFileScheduling):
    """The rest of a file goes to another worker where its own has died."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = file.rpartition("/")[0]
        return folder if folder in TOGETHER and file not in ALONE else file

    def remove_node(self, node: WorkerController) -> str | None:
        """A worker has ended: the test during which it died, or None if it had done its work."""
        files = self.assigned_work[node]
        for tests in files.values():
            for test, done in tests.items():
                if not done:
                    tests[test] = True
                    self._give_back(node)
                    return test
        return super().remove_node(node)

    def _reschedule(self, node: WorkerController) -> None:
        super()._reschedule(node)
        while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            self._assign_work_unit(node)

    def _give_back(self, node: WorkerController) -> None:
        files = self.assigned_work.pop(node)
        self.workqueue.update({file: tests for file, tests in files.items() if not all(tests.values())})
        for other in self.assigned_work:
            self._reschedule(other)
