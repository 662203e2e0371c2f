"""Chapter 5: three quotas. Victims belong to a quota over its min, or to the preemptor's own quota."""

from __future__ import annotations

from typing import Final

from sandbox.demo.player import Player

FILES: Final = "examples/three-teams"
_GPU: Final = "nvidia.com/gpu"
_GET: Final = "kubectl elasticquota get -A"


def three_teams(play: Player) -> None:
    """A pod within min preempts a borrower; a pod beyond min preempts in its own quota only."""
    play.say("blue is guaranteed 3 GPUs and may use 4; red 4 and 6; green 3 and 4.")
    play.do(f"kubectl apply -f {FILES}/quotas.yaml -f examples/priority-classes.yaml")
    for namespace in ("blue", "red", "green"):
        play.scheduled_by_muster(namespace)
    play.do(f"kubectl apply -f {FILES}/1-within-min.yaml -f {FILES}/2-all-busy.yaml")
    play.look(
        _GET,
        f"blue quota {_GPU} 4 3 4 - 1 0",
        f"green quota {_GPU} 3 3 4 - 0 0",
        f"red quota {_GPU} 3 4 6 - 0 1",
    )
    play.say(
        "All ten GPUs are in use. red requests the last GPU of its min. Only blue uses more than its min."
    )
    play.do(f"kubectl apply -f {FILES}/3-red-reclaims.yaml")
    play.do("kubectl wait -n red --for=condition=Ready pod/red-3 --timeout=20s")
    play.look("kubectl get events -n blue --field-selector reason=Preempted", "Preempted", "red/red-3")
    play.look(
        _GET,
        f"blue quota {_GPU} 2 3 4 - 0 0",
        f"green quota {_GPU} 3 3 4 - 0 0",
        f"red quota {_GPU} 4 4 6 - 0 0",
    )
    _own_pods_only(play)


def _own_pods_only(play: Player) -> None:
    play.say("Later, red runs two other pods with 5 GPUs; one GPU is borrowed. pod-b has a high priority.")
    play.do("kubectl delete pod --all -n red")
    play.do(f"kubectl apply -f {FILES}/4-red-borrows.yaml")
    play.do("kubectl wait -n red --for=condition=Ready pod --all --timeout=20s")
    play.look("kubectl elasticquota lending -n red", f"{_GPU} red blue 1 1")
    play.say(
        "red requests one more GPU with high priority. This exceeds its min, so pods of blue and green are",
        "not preempted. The victim is red's own pod with lower priority.",
    )
    others = play.placed("blue"), play.placed("green")
    play.do(f"kubectl apply -f {FILES}/5-red-preempts-itself.yaml")
    play.do("kubectl wait -n red --for=condition=Ready pod/pod-c --timeout=20s")
    play.look("kubectl get pods -n red", "pod-b 1/1 Running", "pod-c 1/1 Running", never=["pod-a"])
    play.look("kubectl get events -n red --field-selector reason=Preempted", "Preempted pod/pod-a")
    play.expect(
        "the pods of blue and green still run", lambda: (play.placed("blue"), play.placed("green")) == others
    )
