"""Chapter 16: one command tells why a gang waits, another tries the change that it proposes."""

from __future__ import annotations

from typing import Final

from sandbox.demo.player import Player

FILES: Final = "examples/why-it-waits"
_CHIP: Final = "example.com/chip"
_GET: Final = "kubectl get pg -n lab"


def why_it_waits(play: Player) -> None:
    """A gang exceeds the max of its quota; the smallest change that starts it is named, tried and applied."""
    play.say("lab and harbour share eight chips. lab may use six of them, and harbour is idle.")
    play.do(f"kubectl apply --server-side -f {FILES}/nodes.yaml | tail -1", "namespace/harbour")
    play.do(f"kubectl apply -f {FILES}/quotas.yaml")
    play.scheduled_by_muster("lab")
    play.say("Two pods that start together need all eight. They wait. Why?")
    play.do(f"kubectl apply -f {FILES}/1-gang.yaml")
    play.look(_GET, "train Pending 2 0")
    play.look(
        "kubectl elasticquota why podgroup/train -n lab",
        f"asks 2 x 4 = 8 {_CHIP}; its quota uses 0; min 4, max 6",
        f"1. raise max[{_CHIP}] from 6 to 8 of ElasticQuota lab/quota",
        f"try it: kubectl elasticquota what-if --set quota/lab:max.{_CHIP}=8",
    )
    play.say(
        "Every change was tried by the scheduler on a copy of the cluster. What else would the first one do?"
    )
    play.look(
        f"kubectl elasticquota what-if --set quota/lab:max.{_CHIP}=8",
        "starts    lab/train-",
        f"quota     lab/quota {_CHIP}: 0 -> 8 (min 4, max 6 -> 8, 4 borrowed)",
    )
    play.say("Nobody loses by it. The change is applied, and the gang starts.")
    play.do(f"kubectl apply -f {FILES}/2-lab-gets-a-higher-max.yaml")
    play.look(_GET, "train Running 2 2")
    play.look("kubectl elasticquota lending -n lab", f"{_CHIP} lab harbour 4 4")
    play.do("kubectl delete namespace lab harbour")
