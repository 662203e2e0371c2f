"""Chapters 1 to 3: two teams with ten GPUs stay within min, borrow, and reclaim."""

from __future__ import annotations

from typing import Final

from sandbox.demo.player import Player

FILES: Final = "examples/two-teams"
_GPU: Final = "nvidia.com/gpu"
_GET: Final = "kubectl elasticquota get -A"


def two_quotas(play: Player) -> None:
    """Both teams stay within min; two invalid quotas are refused."""
    play.say("One node has ten GPUs, the other two have none.")
    play.look(
        "kubectl get nodes -o custom-columns='NAME:.metadata.name,CPU:.status.allocatable.cpu,"
        "GPU:.status.allocatable.nvidia\\.com/gpu'",
        "gpu-0 64 10",
    )
    play.say("team-a is guaranteed 4 GPUs and may use 6; team-b is guaranteed 6 and may use 8.")
    play.do(f"kubectl apply -f {FILES}/quotas.yaml", "elasticquota.scheduling.x-k8s.io/quota created")
    play.say(
        "A rule of the CRD refuses a min above its max. The webhook refuses a max above the hard limit of",
        "a ResourceQuota, because that limit is in another object.",
    )
    play.do(
        f"kubectl apply -f {FILES}/wrong-min-over-max.yaml",
        "spec.min[nvidia.com/gpu]=7 exceeds spec.max[nvidia.com/gpu]=6",
        fails=True,
    )
    play.do(
        f"kubectl replace -f {FILES}/wrong-max-over-hard.yaml",
        "denied the request",
        f"spec.max[{_GPU}]=12 exceeds hard[requests.{_GPU}]=8 of ResourceQuota team-b/created",
        fails=True,
    )
    for namespace in ("team-a", "team-b"):
        play.scheduled_by_muster(namespace)
    play.say("The webhook assigns Muster's scheduler to all pods in namespaces with a quota.")
    play.do(f"kubectl apply -f {FILES}/1-within-min.yaml")
    play.look(
        "kubectl get pods -A -o custom-columns='NAMESPACE:.metadata.namespace,NAME:.metadata.name,"
        "SCHEDULER:.spec.schedulerName,NODE:.spec.nodeName,STATUS:.status.phase'",
        "team-a train-1 muster-scheduler gpu-0 Running",
        "team-b serve-1 muster-scheduler gpu-0 Running",
    )
    play.look(_GET, f"team-a quota {_GPU} 2 4 6 - 0 0", f"team-b quota {_GPU} 3 6 8 8 0 0")


def borrowing(play: Player) -> None:
    """team-a reaches its min, then its max; its next pod waits."""
    play.say("team-a reaches its min of 4. It does not borrow yet.")
    play.do(f"kubectl apply -f {FILES}/2-team-a-reaches-min.yaml")
    play.look(_GET, f"team-a quota {_GPU} 4 4 6 - 0 0", f"team-b quota {_GPU} 3 6 8 8 0 0")
    play.say(
        "Three GPUs are idle, and team-a requests all of them. With two of them it reaches its max of 6."
    )
    play.next_second("team-a")  # so that train-3 is the youngest pod, which is evicted first
    play.do(f"kubectl apply -f {FILES}/3-team-a-borrows.yaml")
    play.do("kubectl wait -n team-a --for=condition=Ready pod/train-3 --timeout=20s")
    play.say("The last pod waits. Its event contains the reason.")
    reason = f"ElasticQuota team-a/quota: used {_GPU}=6 + requested 1 exceeds max=6"
    play.look("kubectl events -n team-a --for pod/train-4", reason)
    play.look(
        "kubectl describe pod train-4 -n team-a | sed -n '/^Events/,$p'", "Warning FailedScheduling", reason
    )
    play.say("The table shows use, pending requests, and borrowed and lent GPUs:")
    play.look(
        f"{_GET} -o wide",
        f"team-a quota {_GPU} 6 4 6 - 2 0",
        "RECLAIMABLE PENDING",
        "0 2 1",
        f"team-b quota {_GPU} 3 6 8 8 0 2 0 0",
    )
    play.look("kubectl elasticquota lending -A", f"{_GPU} team-a team-b 2 2")


def reclaim(play: Player) -> None:
    """team-b requests its min: a pod of team-a is evicted. Then it requests more: its pod waits."""
    before = play.placed("team-a")
    play.say("team-a uses its own 4 GPUs and borrows 2. They are lent by team-b, which uses 3 of its 6.")
    play.look(_GET, f"team-a quota {_GPU} 6 4 6 - 2 0", f"team-b quota {_GPU} 3 6 8 8 0 2")
    play.say(
        "team-b requests three more GPUs. One is idle; the other two of its min of 6 are lent to team-a."
    )
    play.do(f"kubectl apply -f {FILES}/4-team-b-reclaims.yaml")
    play.do("kubectl wait -n team-b --for=condition=Ready pod/serve-2 --timeout=20s")
    play.say("One pod of team-a is evicted, which frees only borrowed GPUs. Its event names the preemptor.")
    play.expect(
        "exactly one pod of team-a was evicted",
        lambda: len(before.keys() - play.placed("team-a").keys()) == 1,
    )
    (victim,) = before.keys() - play.placed("team-a").keys()
    play.look(
        "kubectl get events -n team-a --field-selector reason=Preempted", f"pod/{victim}", "team-b/serve-2"
    )
    both = (f"team-a quota {_GPU} 4 4 6 - 0 0", f"team-b quota {_GPU} 6 6 8 8 0 0")
    play.look(_GET, *both)
    play.say("team-b may use 8 GPUs, but the GPUs of team-a are guaranteed to team-a. The next pod waits.")
    play.do(f"kubectl apply -f {FILES}/5-team-b-asks-for-more.yaml")
    play.look(
        "kubectl events -n team-b --for pod/serve-3",
        f"used by all quotas {_GPU}=10 + requested 1 exceeds sum(min)=10",
    )
    play.look(_GET, *both)
