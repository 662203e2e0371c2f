"""The volume rules of Kubernetes for one pod and one node, over raw objects: the oracle's other half."""

from __future__ import annotations

from tests.support.oracles.nodes import ZONE_LABELS, Raw, World, any_term

NO_DISK = "node(s) had no available disk"
ONE_POD = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


def claim_keys(pod: Raw) -> list[str]:
    namespace = pod["metadata"]["namespace"]
    return [
        f"{namespace}/{volume['persistentVolumeClaim']['claimName']}"
        for volume in pod["spec"].get("volumes") or []
        if "persistentVolumeClaim" in volume
    ]


def early_refusal(world: World, pod: Raw) -> str:
    """What PreFilter says of the pod's claims, or nothing."""
    for key in claim_keys(pod):
        name = key.partition("/")[2]
        if key not in world.claims:
            return f'persistentvolumeclaim "{name}" not found'
        if is_of_another(named_volume(world, key), world.claims[key]):
            return f'persistentvolumeclaim "{name}" names a volume of another claim'
    for key in claim_keys(pod):
        claim = world.claims[key]
        if not is_bound(claim):
            made_by = world.classes.get(claim["spec"].get("storageClassName") or "")
            waits = made_by is not None and made_by["volumeBindingMode"] == "WaitForFirstConsumer"
            if not waits:
                return "pod has unbound immediate PersistentVolumeClaims"
    return ""


def zone_refusal(world: World, pod: Raw) -> str:
    """VolumeZone's own refusal: every claim must have a volume, or wait for its first consumer."""
    for key in claim_keys(pod):
        if key not in world.claims:
            return f'persistentvolumeclaim "{key.partition("/")[2]}" not found'
        spec = world.claims[key]["spec"]
        volume = spec.get("volumeName")
        if volume and volume not in world.volumes:
            return f'persistentvolume "{volume}" not found'
        if not volume and world.classes[spec["storageClassName"]]["volumeBindingMode"] == "Immediate":
            return "PersistentVolume had no name"
    return ""


def limit_refusal(world: World, pod: Raw) -> str:
    """NodeVolumeLimits' own refusal."""
    for key in claim_keys(pod):
        if key not in world.claims:
            return f'looking up PVC {key}: persistentvolumeclaim "{key.partition("/")[2]}" not found'
    return ""


def named_volume(world: World, key: str) -> Raw | None:
    return world.volumes.get(world.claims[key]["spec"].get("volumeName") or "")


def is_of_another(volume: Raw | None, claim: Raw) -> bool:
    """Whether a volume refers to another claim, which kube-scheduler does not ask of a bound one."""
    reference = volume and volume["spec"].get("claimRef")
    if not reference:
        return False
    meta = claim["metadata"]
    mine = (reference["namespace"], reference["name"]) == (meta["namespace"], meta["name"])
    return not mine or reference.get("uid", meta["uid"]) != meta["uid"]


def is_bound(claim: Raw) -> bool:
    return bool(claim["spec"].get("volumeName")) and claim["status"]["phase"] == "Bound"


# Restrictions


def shares(volume: Raw, other: Raw) -> bool:
    """Whether two inline disks cannot be on one node."""
    both_read = False
    for kind, identity in (("gcePersistentDisk", "pdName"), ("iscsi", "iqn")):
        if kind in volume and kind in other:
            both_read = volume[kind].get("readOnly", False) and other[kind].get("readOnly", False)
            return volume[kind][identity] == other[kind][identity] and not both_read
    if "awsElasticBlockStore" in volume and "awsElasticBlockStore" in other:
        return bool(volume["awsElasticBlockStore"]["volumeID"] == other["awsElasticBlockStore"]["volumeID"])
    if "rbd" in volume and "rbd" in other:
        a, b = volume["rbd"], other["rbd"]
        both_read = a.get("readOnly", False) and b.get("readOnly", False)
        image = (a.get("pool", "rbd"), a["image"]) == (b.get("pool", "rbd"), b["image"])
        return image and bool(set(a["monitors"]) & set(b["monitors"])) and not both_read
    return False


def restriction_reasons(world: World, pod: Raw, node: Raw) -> set[str]:
    reasons = set()
    own = pod["spec"].get("volumes") or []
    for other in world.on(node["metadata"]["name"]):
        if any(shares(a, b) for a in own for b in other["spec"].get("volumes") or []):
            reasons.add(NO_DISK)
    for key in claim_keys(pod):
        alone = "ReadWriteOncePod" in world.claims[key]["spec"]["accessModes"]
        if alone and any(key in claim_keys(other) for other in world.pods):
            reasons.add(ONE_POD)
    return reasons


# Zones


def zone_reasons(world: World, pod: Raw, node: Raw) -> set[str]:
    labels = node["metadata"].get("labels") or {}
    if not any(key in labels for key in ZONE_LABELS):
        return set()
    for key in claim_keys(pod):
        volume = named_volume(world, key)
        for label, text in ((volume or {"metadata": {}})["metadata"].get("labels") or {}).items():
            if label in ZONE_LABELS:
                value = labels.get(label, labels.get(ZONE_LABELS[label]))
                if value not in text.split("__"):
                    return {"node(s) had no available volume zone"}
    return set()


# Binding


def reachable(volume: Raw, node: Raw) -> bool:
    affinity = volume["spec"].get("nodeAffinity")
    return affinity is None or any_term(affinity["required"]["nodeSelectorTerms"], node)


def size(spec: Raw) -> int:
    return int((spec.get("capacity") or spec["resources"]["requests"])["storage"])


def find_volume(world: World, claim: Raw, node: Raw, taken: set[str]) -> str | None:
    """Kubernetes' FindMatchingVolume for one node."""
    best: Raw | None = None
    for name in sorted(world.volumes):
        volume = world.volumes[name]
        spec = volume["spec"]
        reference = spec.get("claimRef")
        if name in taken or size(spec) < size(claim["spec"]):
            continue
        if reference is not None:
            mine = (reference["namespace"], reference["name"]) == (
                claim["metadata"]["namespace"],
                claim["metadata"]["name"],
            )
            if mine and reference.get("uid", claim["metadata"]["uid"]) == claim["metadata"]["uid"]:
                return name if reachable(volume, node) else None
            continue
        if volume["status"]["phase"] != "Available" or not reachable(volume, node):
            continue
        if spec.get("storageClassName", "") != claim["spec"].get("storageClassName", ""):
            continue
        if not set(claim["spec"]["accessModes"]) <= set(spec["accessModes"]):
            continue
        wanted = (claim["spec"].get("selector") or {}).get("matchLabels") or {}
        labels = volume["metadata"].get("labels") or {}
        if any(labels.get(key) != value for key, value in wanted.items()):
            continue
        if best is None or size(spec) < size(best["spec"]):
            best = volume
    return None if best is None else str(best["metadata"]["name"])


def can_be_made(world: World, claim: Raw, node: Raw) -> bool:
    made_by = world.classes[claim["spec"]["storageClassName"]]
    if made_by["provisioner"] == "kubernetes.io/no-provisioner":
        return False
    topologies = made_by.get("allowedTopologies") or []
    labels = node["metadata"].get("labels") or {}
    return not topologies or any(
        all(labels.get(item["key"]) in item["values"] for item in term["matchLabelExpressions"])
        for term in topologies
    )


def binding_reasons(world: World, pod: Raw, node: Raw) -> set[str]:
    reasons = set()
    claims = [world.claims[key] for key in claim_keys(pod)]
    for claim in claims:
        if is_bound(claim):
            volume = world.volumes.get(claim["spec"]["volumeName"])
            if volume is None:
                reasons.add(NO_VOLUME)
            elif not reachable(volume, node):
                reasons.add(CONFLICT)
    taken: set[str] = set()
    for claim in sorted((c for c in claims if not is_bound(c)), key=lambda c: size(c["spec"])):
        selected = (claim["metadata"].get("annotations") or {}).get("volume.kubernetes.io/selected-node")
        if selected:
            if selected != node["metadata"]["name"] or not can_be_made(world, claim, node):
                reasons.add(NOTHING_TO_BIND)
            continue
        found = find_volume(world, claim, node, taken)
        if found is not None:
            taken.add(found)
        elif not can_be_made(world, claim, node):
            reasons.add(NOTHING_TO_BIND)
    return reasons


# Limits


def handles(world: World, pod: Raw) -> set[tuple[str, str]]:
    found = set()
    for key in claim_keys(pod):
        claim = world.claims.get(key)
        if claim is None:
            continue
        volume = named_volume(world, key)
        if volume is not None:
            csi = volume["spec"].get("csi")
            if csi is not None and not is_of_another(volume, claim):
                found.add((csi["driver"], csi["volumeHandle"]))
            continue
        made_by = world.classes.get(claim["spec"].get("storageClassName") or "")
        if made_by is not None and made_by["provisioner"] != "kubernetes.io/no-provisioner":
            found.add((made_by["provisioner"], f"claim {key}"))
    return found


def limit_reasons(world: World, pod: Raw, node: Raw) -> set[str]:
    name = node["metadata"]["name"]
    drivers = (world.csi.get(name) or {"spec": {"drivers": []}})["spec"]["drivers"]
    there = {handle for other in world.on(name) for handle in handles(world, other)}
    new = handles(world, pod) - there
    for driver in drivers:
        count = (driver.get("allocatable") or {}).get("count")
        coming = sum(1 for handle in new if handle[0] == driver["name"])
        attached = sum(1 for handle in there if handle[0] == driver["name"])
        if count is not None and coming and attached + coming > count:
            return {"node(s) exceed max volume count"}
    return set()
