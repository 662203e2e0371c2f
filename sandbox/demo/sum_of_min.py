"""Chapter 4: all quotas together may use the sum of their min, also where nodes have more."""

from __future__ import annotations

from typing import Final

from sandbox.demo.player import Player

FILES: Final = "examples/sum-of-min"
_GPU: Final = "nvidia.com/gpu"
_GET: Final = "kubectl elasticquota get -A"


def sum_of_min(play: Player) -> None:
    """A pod waits beside idle GPUs, because no quota guarantees them; a higher min lets it start."""
    play.say(
        "vision and speech are guaranteed 2 GPUs each, and each may use 8. So 4 of 10 GPUs are guaranteed."
    )
    play.do(f"kubectl apply -f {FILES}/quotas.yaml")
    play.scheduled_by_muster("vision")
    play.say("speech is idle. vision uses its own 2 GPUs and borrows those of speech.")
    play.do(f"kubectl apply -f {FILES}/1-vision-borrows.yaml")
    play.do("kubectl wait -n vision --for=condition=Ready pod/detect-1 --timeout=20s")
    play.look("kubectl elasticquota lending -A", f"{_GPU} vision speech 2 2")
    play.say("vision requests a fifth GPU. Its max is 8 and six GPUs are idle, but the pod waits:")
    play.do(f"kubectl apply -f {FILES}/2-vision-waits.yaml")
    play.look(
        "kubectl events -n vision --for pod/detect-2",
        f"ElasticQuota vision/quota: used by all quotas {_GPU}=4 + requested 1 exceeds sum(min)=4",
        "raise a min",
    )
    play.look(_GET, f"speech quota {_GPU} 0 2 8 - 0 2", f"vision quota {_GPU} 4 2 8 - 2 0")
    play.say(
        "This is the rule of sum(min): all quotas together use at most what all of them are guaranteed.",
        "A team borrows only what is guaranteed to another team. That team can reclaim it at any time.",
        "Nobody is guaranteed the six other GPUs. Pods without a quota may use them.",
    )
    play.say("A higher min of any team helps. With a min of 8 for speech, all ten GPUs are guaranteed.")
    play.do(f"kubectl apply -f {FILES}/3-speech-gets-a-higher-min.yaml")
    play.do("kubectl wait -n vision --for=condition=Ready pod/detect-2 --timeout=20s")
    play.say("The pod runs. speech can now lend 8 GPUs, and it lends 3 of them.")
    play.look("kubectl elasticquota lending -A", f"{_GPU} vision speech 3 3")
