"""Chapter 7: four pods that need each other wait together, and start together."""

from __future__ import annotations

from typing import Final

from sandbox.demo.player import Player

FILES: Final = "examples/gang"
SIZE: Final = 4
_PODS: Final = (
    "kubectl get pods -n training -o custom-columns="
    "'NAME:.metadata.name,NODE:.spec.nodeName,STATUS:.status.phase'"
)


def gang_of_four(play: Player) -> None:
    """Room for three of four starts nobody; room for the fourth starts all."""
    play.say(
        "A namespace without a quota may be Muster's too: a label says so. A notebook holds 4 of 10 GPUs."
    )
    play.do("kubectl uncordon gpu-0", "uncordoned")
    play.do(f"kubectl apply -f {FILES}/1-notebook.yaml")
    play.do("kubectl wait -n training --for=condition=Ready pod/notebook --timeout=20s")
    play.say(
        "Four workers with 2 GPUs each, of no use one by one: minMembers is 4. Three would fit, so none",
        "starts, and no GPU is held for nothing.",
    )
    play.do(f"kubectl apply -f {FILES}/2-gang-of-four.yaml")
    play.look(
        "kubectl get events -n training --field-selector reason=FailedScheduling",
        "PodGroup training/workers: only 3 of the 4 pods that must start together find a node",
    )
    play.look("kubectl get pg -n training", "workers Pending 4 0")
    said = play.look(_PODS, "notebook gpu-0 Running")
    play.expect("no worker has a node", lambda: said.count("<none>") == said.count("Pending") == SIZE)
    play.say("The notebook goes, and all four start at once.")
    play.do("kubectl delete pod notebook -n training")
    play.look("kubectl get pg -n training", "workers Running 4 4")
    play.look(_PODS, "gpu-0 Running", never=["Pending"])
