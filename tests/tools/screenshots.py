"""The pictures of the web view in the documents: `make docs` takes them where headless Chromium is there.

    python -m tests.tools.screenshots

A sandbox with scheduler and webhook holds a cluster of five teams, whose work is the same each time. A
picture is taken anew only if its page has other content than the one that it was taken of: the hash of the
content, without times and ports, is in the picture.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.sandbox_process import sandbox_process
from tests.support.console_session import local_console
from tests.support.eventually import eventually
from tests.tools.build import have

ROOT: Final = Path(__file__).resolve().parents[2]
STYLE: Final = ROOT / "kubectl_plugin" / "console" / "static" / "console.css"
FOLDER: Final = ROOT / "docs" / "images"
PAGES: Final = {
    "now": "/now",
    "lending": "/lending",
    "queue": "/queue",
    "gang": "/gangs/deep/incubator.llm",
    "topology": "/topology",
}
_ARGUMENTS: Final = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
_SIZE: Final = {"width": 1240, "height": 780}
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_KEY: Final = b"muster-content\0"
_GPU: Final = "nvidia.com/gpu"
_SECONDS: Final = 60.0
# Times, and on which of equal nodes pods are.
_VARIES: Final = re.compile(
    r"20\d\d-[-0-9T:Z.]+|<rect[^>]*>(<title>.*?</title></rect>)?|<text[^>]*>.*?</text>|(node|rack)-\d+|"
    r"<tbody.*?</tbody>|Hop cost</dt><dd>.*?</dd>",
    re.DOTALL,
)
# Per team: GPUs that are guaranteed, and the most.
_TEAMS: Final = {"astro": (32, 64), "bio": (32, 64), "chem": (32, 48), "deep": (48, 128), "vision": (48, 96)}
_PACK: Final = '{"rack": {"type": "pack"}, "node": {"type": "pack"}}'


def main() -> None:
    """Take what has changed; says in a line what it did."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("docs/images: the pictures of the web view stay: Playwright is missing (make test-browser)")
        return
    program = shutil.which("chromium-headless-shell")
    if program is None:
        print("docs/images: the pictures of the web view stay, as chromium-headless-shell is not installed")
        return
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_ARGUMENTS))
        for url, cookie in _console(Path(folder)):
            context = browser.new_context(viewport=_SIZE)
            context.add_cookies([{**cookie, "url": url}])
            taken = [name for name, path in PAGES.items() if _take(context.new_page(), url + path, name)]
        browser.close()
    print(f"docs/images: taken anew: {', '.join(taken) or 'none'}", file=sys.stderr)


def _console(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a console on the cluster, and the cookie of its session."""
    (folder / "topology.yaml").write_text(yaml.safe_dump(_topology()))
    flags = ("--all", "--topology", str(folder / "topology.yaml"))
    sizes = ("--node-gpus", "8", "--node-cpu", "64", "--node-memory", "256Gi")
    with sandbox_process(folder, *flags, *sizes) as server:
        cluster = Cluster(server, have("kubectl").path, "sandbox")
        _fill(cluster)
        with local_console(server.kubeconfig) as (_, session):
            session.page("/queue")
            # Steps and estimates are looked for in the background.
            eventually(lambda: "step" in session.ask("/queue?format=json").body, _SECONDS)
            name, _, value = session.headers["Cookie"].partition("=")
            yield f"http://{session.host}", {"name": name, "value": value}


def _take(page: Any, url: str, name: str) -> bool:
    """Take a picture, unless the one that is there shows the same."""
    page.goto(url)
    page.evaluate("document.querySelectorAll('time').forEach(item => item.textContent = '2 min ago')")
    page.evaluate("document.querySelector('.where').textContent = 'https://cluster.example'")
    content = _VARIES.sub("", page.content())
    digest = hashlib.sha256(content.encode() + STYLE.read_bytes()).hexdigest().encode()
    file = FOLDER / f"console-{name}.png"
    if file.exists() and _KEY + digest in file.read_bytes():
        return False
    picture: bytes = page.screenshot()
    file.write_bytes(_with_text(picture, _KEY + digest))
    return True


def _with_text(picture: bytes, text: bytes) -> bytes:
    """The PNG with a chunk of text before its end."""
    end = picture.rindex(b"IEND") - 4
    chunk = b"tEXt" + text
    framed = struct.pack(">I", len(text)) + chunk + struct.pack(">I", zlib.crc32(chunk))
    assert picture.startswith(_SIGNATURE)
    return picture[:end] + framed + picture[end:]


def _fill(cluster: Cluster) -> None:
    """Quotas, work that starts, and then work that waits, each in its own second: its order is known."""
    for team, (low, high) in _TEAMS.items():
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": team}})
        bounds = {"min": {_GPU: low, "cpu": low * 8}, "max": {_GPU: high, "cpu": high * 8}}
        path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{team}/elasticquotas"
        head = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota"}
        cluster.request("POST", path, {**head, "metadata": {"name": "quota"}, "spec": bounds})
    runs = [("deep", "llm", 6, 8, _PACK), ("deep", "llm-eval", 4, 8, ""), ("astro", "survey", 4, 4, "")]
    runs += [("bio", "fold", 8, 4, ""), ("vision", "detect", 6, 4, ""), ("chem", "dock", 2, 4, "")]
    for team, name, size, gpus, constraints in runs:
        _gang(cluster, team, name, size, gpus, constraints)
        eventually(lambda team=team, size=size, name=name: _placed(cluster, team, name) == size, _SECONDS)
    waits = [("vision", "segment", 6, 8, ""), ("astro", "stack", 12, 4, _PACK), ("bio", "tree", 20, 4, "")]
    for team, name, size, gpus, constraints in waits:
        second = int(time.time())
        _gang(cluster, team, name, size, gpus, constraints)
        eventually(lambda second=second: int(time.time()) > second, _SECONDS)


def _placed(cluster: Cluster, team: str, name: str) -> int:
    pods = cluster.request("GET", f"/api/v1/namespaces/{team}/pods")["items"]
    return sum(
        bool(pod["spec"].get("nodeName")) and pod["metadata"]["name"].startswith(f"{name}-") for pod in pods
    )


def _gang(cluster: Cluster, team: str, name: str, size: int, gpus: int, constraints: str) -> None:
    annotations = {"muster.dev/topology-constraints": constraints} if constraints else {}
    head = {"apiVersion": "incubator.scheduling.k8s.io/v1alpha1", "kind": "PodGroup"}
    group = {**head, "metadata": {"name": name, "annotations": annotations}, "spec": {"minMembers": size}}
    path = f"/apis/incubator.scheduling.k8s.io/v1alpha1/namespaces/{team}/podgroups"
    cluster.request("POST", path, group)
    amounts = {"cpu": str(gpus * 4), _GPU: str(gpus)}
    container = {
        "name": "main",
        "image": "train",
        "resources": {"requests": amounts, "limits": {_GPU: str(gpus)}},
    }
    for number in range(size):
        meta = {"name": f"{name}-{number}", "annotations": {"scheduling.k8s.io/group-name": name}}
        spec = {"schedulerName": "muster-scheduler", "containers": [container]}
        cluster.request("POST", f"/api/v1/namespaces/{team}/pods", {"metadata": meta, "spec": spec})


def _topology() -> dict[str, Any]:
    tree = {f"rack-{rack}": {f"node-{rack}{node}": {} for node in range(4)} for rack in range(6)}
    data = {
        "name": "tree",
        "resource-names": '["cpu", "nvidia.com/gpu"]',
        "level-names": '["rack", "node"]',
        "tree": json.dumps(tree),
    }
    meta = {"name": "topology", "namespace": "default", "labels": {"sakkara.topology": ""}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


if __name__ == "__main__":
    main()
