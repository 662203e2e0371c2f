"""Chapters 8 to 11, 14 and 15: gangs start together, reserve their quota, and come from owners."""

from __future__ import annotations

from typing import Final

from sandbox.demo.player import Player

FILES: Final = "examples/gang"
TWO: Final = "examples/two-gangs"
RESERVED: Final = "examples/reserved-gang"
OWNERS: Final = "examples/gangs-from-owners"
ANNOTATED: Final = "examples/one-annotation"
SIZE: Final = 4
_PODS: Final = (
    "kubectl get pods -n training -o custom-columns="
    "'NAME:.metadata.name,NODE:.spec.nodeName,STATUS:.status.phase'"
)


def gang_of_four(play: Player) -> None:
    """Capacity for three of four pods starts none of them; capacity for four starts all."""
    play.say("A label makes Muster schedule a namespace without a quota. A notebook uses 4 of the 10 GPUs.")
    play.do("kubectl uncordon gpu-0", "uncordoned")
    play.do(f"kubectl apply -f {FILES}/1-notebook.yaml")
    play.do("kubectl wait -n training --for=condition=Ready pod/notebook --timeout=20s")
    play.say(
        "Four workers need 2 GPUs each and work only together: minMembers is 4. Only three of them fit,",
        "so none starts, and no GPU is held by a partial gang.",
    )
    play.do(f"kubectl apply -f {FILES}/2-gang-of-four.yaml")
    play.look(
        "kubectl get events -n training --field-selector reason=FailedScheduling",
        "PodGroup training/workers: only 3 of the 4 pods that must start together find a node",
    )
    play.look("kubectl get pg -n training", "workers Pending 4 0")
    waiting = {"no worker has a node": lambda said: said.count("<none>") == said.count("Pending") == SIZE}
    play.look(_PODS, "notebook gpu-0 Running", facts=waiting)
    play.say("The notebook is deleted, and all four workers start at once.")
    play.do("kubectl delete pod notebook -n training")
    play.look("kubectl get pg -n training", "workers Running 4 4")
    play.look(_PODS, "gpu-0 Running", never=["Pending"])


def two_gangs(play: Player) -> None:
    """Two gangs and capacity for one: placed pod by pod, each would hold half of it and wait forever."""
    play.say(
        "Two Jobs of four pods each arrive together; their pods alternate. There are four accelerators.",
        "A scheduler that places pods one by one starts two of each Job, and neither Job ever runs.",
    )
    play.do(f"kubectl apply --server-side -f {TWO}/nodes.yaml | tail -1", "namespace/duel")
    play.do(f"kubectl apply -f {TWO}/1-both-at-once.yaml")
    said = play.look("kubectl get pg -n duel", "Running 4 4", "Pending 4 0")
    (first,) = (line.split()[0] for line in said.splitlines() if " Running " in line)
    (second,) = {"east", "west"} - {first}
    play.say(f"All pods of {first} run. {second} holds no accelerator and reports what is missing.")
    play.look(
        f"kubectl podgroup status {second} -n duel",
        f"PodGroup duel/{second}: only 0 of the 4 pods that must start together find a node",
        "4 pods short: each needs 1 example.com/accelerator; 2 nodes have this resource",
    )
    play.say(f"When {first} ends, all pods of {second} start.")
    play.do(f"kubectl delete job {first} -n duel")
    play.look("kubectl get pg -n duel", f"{second} Running 4 4")


def reserved_quota(play: Player) -> None:
    """The reservation of a group keeps quota for members that are created later."""
    play.say("A ResourceQuota has two CPUs, and a group of four needs both. They are reserved immediately.")
    play.do(f"kubectl apply -f {RESERVED}/1-quota-and-group.yaml")
    play.look("kubectl podgroup status -n promised -o wide", "train incubator Pending 4 0 0 0 0 0 cpu=2/2")
    play.say("Half of the members are created. Then another pod requests CPU that is reserved for the rest.")
    play.do(f"kubectl apply -f {RESERVED}/2-first-half.yaml")
    play.do(
        f"kubectl apply -f {RESERVED}/3-somebody-else.yaml",
        "exceeded quota: compute, requested: requests.cpu=500m, used: requests.cpu=1, "
        "reserved: requests.cpu=1, limited: requests.cpu=2",
        fails=True,
    )
    play.say("The other members are admitted by the quota, and the gang starts.")
    play.do(f"kubectl apply -f {RESERVED}/4-second-half.yaml")
    play.look("kubectl podgroup status train -n promised", "Phase: Running", "members use cpu=2 of cpu=2")


def one_annotation(play: Player) -> None:
    """One annotation turns an existing Job into a gang."""
    play.say("An existing Job becomes a gang when its owner adds one annotation.")
    play.do(f"kubectl apply -f {ANNOTATED}/group.yaml")
    play.do(
        f"kubectl annotate --local -f {ANNOTATED}/job.yaml -o yaml scheduling.k8s.io/group-name=rowers"
        " | kubectl apply -f -"
    )
    play.say("The webhook set the group on every pod. The pods start together.")
    play.look("kubectl get pg -n crew", "rowers Running 3 3")
    play.look(
        "kubectl get pods -n crew -o custom-columns="
        "'GROUP:.metadata.annotations.scheduling\\.k8s\\.io/group-name,SCHEDULER:.spec.schedulerName'",
        facts={
            "all pods are rowers": lambda said: said.count("rowers") == said.count("muster-scheduler") == 3
        },
    )


def owner_as_it_is(play: Player) -> None:
    """An indexed Job is a gang without any setting of its own."""
    play.say("In a namespace with the label muster.dev/gang=auto, a Job says enough by itself.")
    play.do(f"kubectl apply -f {OWNERS}/1-namespace-and-job.yaml")
    play.say("The webhook made a PodGroup from parallelism and completions. It goes away with the Job.")
    play.look("kubectl get pg -n fleet", "job-boat Running 3 3")


def real_controllers(play: Player) -> None:
    """A Job and a JobSet, whose pods are made by the controllers of Kubernetes and JobSet, are gangs."""
    play.webhook_answers()
    play.say(
        "This is a real kube-apiserver. Kubernetes' own controller creates the pods of Jobs, and the",
        "controller of JobSet creates Jobs. The namespace has the label muster.dev/gang=auto. No pod",
        "template names a group.",
    )
    play.do(f"kubectl apply -f {OWNERS}/1-namespace-and-job.yaml")
    play.look("kubectl get pg -n fleet", "job-boat Running 3 3")
    play.say("The JobSet has two Jobs with two pods each. The Job leaves room for three pods.")
    play.do(f"kubectl apply -f {OWNERS}/2-job-set.yaml")
    play.look(
        "kubectl get jobs -n fleet -o custom-columns='NAME:.metadata.name,OWNER:..ownerReferences[*].kind'",
        "convoy-ship-0 JobSet",
        "convoy-ship-1 JobSet",
    )
    play.look(
        "kubectl podgroup status jobset-convoy -n fleet",
        "only 3 of the 4 pods that must start together find a node",
    )
    play.say("The Job is deleted, and its group goes with it. All pods of the JobSet start.")
    play.do("kubectl delete job boat -n fleet")
    listing = "kubectl get pg -n fleet"
    play.look(listing, "jobset-convoy Running 4 4")
    play.expect("the group of the Job is gone", lambda: "job-boat" not in play.output(listing))
