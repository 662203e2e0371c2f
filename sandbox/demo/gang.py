"""Chapters 7 to 10: pods that need each other wait together, start together, and are promised their quota."""

from __future__ import annotations

from typing import Final

from sandbox.demo.player import Player

FILES: Final = "examples/gang"
TWO: Final = "examples/two-gangs"
PROMISED: Final = "examples/reserved-gang"
ANNOTATED: Final = "examples/one-annotation"
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


def two_gangs(play: Player) -> None:
    """Room for one of two: pod by pod each would hold half of it and wait for ever."""
    play.say(
        "Two Jobs of four come at once, pod by pod in turn, and there are four accelerators. Whoever places",
        "pods one by one ends with two of each, and neither Job ever runs.",
    )
    play.do(f"kubectl apply --server-side -f {TWO}/nodes.yaml | tail -1", "namespace/duel")
    play.do(f"kubectl apply -f {TWO}/1-both-at-once.yaml")
    said = play.look("kubectl get pg -n duel", "Running 4 4", "Pending 4 0")
    (first,) = (line.split()[0] for line in said.splitlines() if " Running " in line)
    (second,) = {"east", "west"} - {first}
    play.say(f"{first} runs as a whole, {second} holds nothing, and says what it waits for.")
    play.look(
        f"kubectl podgroup status {second} -n duel",
        f"PodGroup duel/{second}: only 0 of the 4 pods that must start together find a node",
        "4 short of example.com/accelerator on 2 nodes",
    )
    play.say(f"When {first} ends, {second} starts, all of it.")
    play.do(f"kubectl delete job {first} -n duel")
    play.look("kubectl get pg -n duel", f"{second} Running 4 4")


def promised_quota(play: Player) -> None:
    """What a group reserved protects the members that are still to come."""
    play.say("A ResourceQuota of two CPUs, and a group of four that needs all of it. It is reserved at once.")
    play.do(f"kubectl apply -f {PROMISED}/1-quota-and-group.yaml")
    play.look("kubectl podgroup status -n promised -o wide", "train Pending 4 0 0 0 0 0 cpu=2/2")
    play.say("Half of the members come. Then somebody else asks for what the other half was promised.")
    play.do(f"kubectl apply -f {PROMISED}/2-first-half.yaml")
    play.do(
        f"kubectl apply -f {PROMISED}/3-somebody-else.yaml",
        "exceeded quota: compute, requested: requests.cpu=500m, used: requests.cpu=1, "
        "reserved: requests.cpu=1, limited: requests.cpu=2",
        fails=True,
    )
    play.say("The second half finds its quota, and the gang starts.")
    play.do(f"kubectl apply -f {PROMISED}/4-second-half.yaml")
    play.look("kubectl podgroup status train -n promised", "Phase: Running", "members use cpu=2 of cpu=2")


def one_annotation(play: Player) -> None:
    """An existing Job becomes a gang."""
    play.say("A Job that knows nothing of gangs. One annotation on it is all that its owner has to add.")
    play.do(f"kubectl apply -f {ANNOTATED}/group.yaml")
    play.do(
        f"kubectl annotate --local -f {ANNOTATED}/job.yaml -o yaml scheduling.k8s.io/group-name=rowers"
        " | kubectl apply -f -"
    )
    play.say("The webhook wrote the group on every pod; they start together.")
    play.look("kubectl get pg -n crew", "rowers Running 3 3")
    said = play.look(
        "kubectl get pods -n crew -o custom-columns="
        "'GROUP:.metadata.annotations.scheduling\\.k8s\\.io/group-name,SCHEDULER:.spec.schedulerName'"
    )
    play.expect("all pods are rowers", lambda: said.count("rowers") == said.count("muster-scheduler") == 3)
