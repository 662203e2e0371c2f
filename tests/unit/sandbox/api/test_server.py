"""The server over real connections: authentication, watches, warnings, limits, start and stop."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from sandbox.api.server import ServerOptions
from sandbox.kinds.builtin import CONFIG_MAPS
from sandbox.nodes.initial_nodes import NodeShape, numbered_nodes
from tests.support.clusters.sandbox_server import SandboxServer
from tests.support.clusters.server import RequestFailed, request
from tests.support.documents import ROOT
from tests.support.eventually import eventually

PODS = "/api/v1/namespaces/default/pods"
CONFIGS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def server() -> Iterator[SandboxServer]:
    with SandboxServer(ServerOptions(bookmark_seconds=0.1)) as running:
        yield running


def send(
    server: SandboxServer, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    place = urlsplit(server.url)
    context = ssl.create_default_context(cafile=str(server.ca_file))
    link = http.client.HTTPSConnection(place.hostname or "", place.port, timeout=10, context=context)
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    try:
        link.request(method, path, body, {"Authorization": f"Bearer {server.token}", **named})
        answer = link.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        link.close()


def events(server: SandboxServer, path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in send(server, "GET", path)[2].splitlines()]


def config(server: SandboxServer, name: str, **data: str) -> dict[str, Any]:
    made: dict[str, Any] = request(server, "POST", CONFIGS, {"metadata": {"name": name}, "data": data})
    return made


def test_long_request_lines_and_headers_are_read_as_by_a_kube_apiserver(server: SandboxServer) -> None:
    """Selectors of clients with many labels, and tokens of users with many groups."""
    status, _, body = send(server, "GET", f"{PODS}?labelSelector={'a%2C' * 7000}a", X_Groups="g" * 200_000)
    assert (status, json.loads(body)["kind"]) == (200, "PodList")


def test_it_answers_soon_after_its_start() -> None:
    begin = time.monotonic()
    with SandboxServer() as fresh:
        assert request(fresh, "GET", "/version")["gitVersion"].startswith("v1.")
        assert time.monotonic() - begin < 60
        folder = fresh.kubeconfig.parent
        assert {
            item["metadata"]["name"] for item in request(fresh, "GET", "/api/v1/namespaces")["items"]
        } == {
            "default",
            "kube-system",
            "kube-public",
            "kube-node-lease",
        }
    assert not folder.exists()


def test_server_and_nodes_are_of_one_release_that_the_chart_accepts(server: SandboxServer) -> None:
    version = request(server, "GET", "/version")
    (node,) = numbered_nodes(1, NodeShape())
    assert node["status"]["nodeInfo"]["kubeletVersion"] == version["gitVersion"]
    assert version["gitVersion"].startswith(f"v{version['major']}.{version['minor']}.")
    wanted = yaml.safe_load((ROOT / "charts/muster/Chart.yaml").read_text())["kubeVersion"]
    (least,) = re.findall(r"^>=1\.(\d+)\.0-0$", wanted)
    assert int(version["minor"]) >= int(least)


def test_a_port_in_use_is_an_error(server: SandboxServer) -> None:
    port = urlsplit(server.url).port or 0
    with pytest.raises(OSError, match="address already in use"), SandboxServer(ServerOptions(port=port)):
        pass


def test_files_are_for_the_owner_only(tmp_path: Path) -> None:
    with SandboxServer(ServerOptions(directory=tmp_path)) as own:
        modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("kubeconfig", "server.key")}
        assert modes == {"kubeconfig": 0o600, "server.key": 0o600}
        assert yaml.safe_load(own.kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == own.url
        assert own.url.startswith("https://127.0.0.1:")


@pytest.mark.smoke
@pytest.mark.parametrize("header", ["", "Bearer wrong", "Basic x", "Bearer"])
def test_a_request_without_the_token_is_refused(server: SandboxServer, header: str) -> None:
    status, _, body = send(server, "GET", PODS, Authorization=header)
    assert (status, json.loads(body)["reason"]) == (401, "Unauthorized")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping"])
def test_health_is_open(server: SandboxServer, path: str) -> None:
    assert send(server, "GET", path, Authorization="")[::2] == (200, b"ok")


@pytest.mark.smoke
def test_a_watch_tells_what_happened_since_a_version(server: SandboxServer) -> None:
    made = config(server, "w1")
    request(server, "PATCH", f"{CONFIGS}/w1", {"data": {"a": "1"}})
    request(server, "DELETE", f"{CONFIGS}/w1")
    version = made["metadata"]["resourceVersion"]
    seen = events(server, f"{CONFIGS}?watch=1&timeoutSeconds=1&resourceVersion={version}")
    assert [event["type"] for event in seen] == ["MODIFIED", "DELETED"]
    assert int(seen[1]["object"]["metadata"]["resourceVersion"]) > int(
        seen[0]["object"]["metadata"]["resourceVersion"]
    )


def test_an_idle_watch_sends_bookmarks(server: SandboxServer) -> None:
    seen = events(server, f"{CONFIGS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=1")
    marks = [event["object"] for event in seen if event["type"] == "BOOKMARK"]
    assert marks
    assert marks[0]["kind"] == "ConfigMap"
    assert int(marks[0]["metadata"]["resourceVersion"]) <= server.api.store.revision


def test_a_watch_of_one_object_sees_no_other(server: SandboxServer) -> None:
    config(server, "one")
    config(server, "two")
    seen = events(server, f"{CONFIGS}/one?watch=1&timeoutSeconds=1")
    assert [event["object"]["metadata"]["name"] for event in seen] == ["one"]


@pytest.mark.smoke
def test_compaction_expires_watches_and_pages() -> None:
    with SandboxServer() as own:
        for name in "abc":
            config(own, name)
        page = request(own, "GET", f"{CONFIGS}?limit=1")
        own.api.compact()
        seen = events(own, f"{CONFIGS}?watch=1&timeoutSeconds=1&resourceVersion=2")
        assert [event["type"] for event in seen] == ["ERROR"]
        assert (seen[0]["object"]["code"], seen[0]["object"]["reason"]) == (410, "Expired")
        with pytest.raises(RequestFailed, match="continue parameter is too old") as gone:
            request(own, "GET", f"{CONFIGS}?continue={page['metadata']['continue']}")
        assert gone.value.status == 410


def test_a_watch_that_does_not_read_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.api.watch.PENDING_LIMIT", 50)
    with SandboxServer() as own:
        place = urlsplit(own.url)
        context = ssl.create_default_context(cafile=str(own.ca_file))
        link = http.client.HTTPSConnection(place.hostname or "", place.port, timeout=10, context=context)
        link.request("GET", f"{CONFIGS}?watch=1", headers={"Authorization": f"Bearer {own.token}"})
        answer = link.getresponse()
        padding = "x" * 400_000

        def flood() -> bool:
            for number in range(20):
                config(own, f"f{time.monotonic_ns()}-{number}", padding=padding)
            return not own.api.store.storage(CONFIG_MAPS).entry_callbacks

        eventually(flood, timeout=60)
        answer.close()
        link.close()


def test_tables_in_a_watch(server: SandboxServer) -> None:
    config(server, "t1")
    _, _, body = send(
        server,
        "GET",
        f"{CONFIGS}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dt1",
        Accept="application/json;as=Table;v=v1;g=meta.k8s.io",
    )
    first = json.loads(body.splitlines()[0])
    assert (first["type"], first["object"]["kind"]) == ("ADDED", "Table")
    assert first["object"]["rows"][0]["cells"][0] == "t1"


@pytest.mark.smoke
def test_unknown_fields_warn_or_refuse(server: SandboxServer) -> None:
    body = json.dumps({"metadata": {"name": "u", "typo": 1}}).encode()
    status, headers, _ = send(server, "POST", f"{CONFIGS}?dryRun=All", body, Content_Type="application/json")
    assert (status, headers["Warning"]) == (201, '299 - "unknown field \\"metadata.typo\\""')
    refused = send(server, "POST", f"{CONFIGS}?fieldValidation=Strict", body, Content_Type="application/json")
    assert refused[0] == 400


HOSTILE = [
    ("too large", b"x" * (3 * 1024 * 1024 + 1), "application/json", 413),
    ("nested too deep", b"[" * 100_000, "application/json", 400),
    (
        "nested deep in a field",
        b'{"metadata":{"name":"x"},"data":' + b'{"a":' * 900 + b"1" + b"}" * 901,
        "application/json",
        400,
    ),
    ("no JSON", b"{", "application/json", 400),
    ("no object", b"[]", "application/json", 400),
    ("NaN", b'{"metadata":{"name":NaN}}', "application/json", 400),
    ("a text as metadata", b'{"metadata":"x"}', "application/json", 400),
    ("labels of numbers", b'{"metadata":{"name":"x","labels":{"a":1}}}', "application/json", 400),
    ("broken protobuf", b"k8s\x00\x0a\xff", "application/vnd.kubernetes.protobuf", 400),
    ("a form", b"a=b", "application/x-www-form-urlencoded", 415),
]


@pytest.mark.parametrize(("sentence", "body", "media", "status"), HOSTILE, ids=[row[0] for row in HOSTILE])
def test_hostile_bodies_are_refused(
    server: SandboxServer, sentence: str, body: bytes, media: str, status: int
) -> None:
    before = server.api.store.revision
    assert send(server, "POST", CONFIGS, body, Content_Type=media)[0] == status
    assert server.api.store.revision == before


DOCUMENTS = [
    ("/api", "APIVersions"),
    ("/apis", "APIGroupList"),
    ("/apis/apps", "APIGroup"),
    ("/apis/apps/v1", "APIResourceList"),
    ("/api/v1", "APIResourceList"),
]


@pytest.mark.smoke
@pytest.mark.parametrize(("path", "kind"), DOCUMENTS)
def test_discovery(server: SandboxServer, path: str, kind: str) -> None:
    assert request(server, "GET", path)["kind"] == kind


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_aggregated_discovery(server: SandboxServer, version: str) -> None:
    accept = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    _, headers, body = send(server, "GET", "/apis", Accept=accept)
    shown = json.loads(body)
    assert shown["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    assert headers["Content-Type"].endswith("as=APIGroupDiscoveryList")
    assert "apps" in [group["metadata"]["name"] for group in shown["items"]]


def test_every_openapi_reference_resolves(server: SandboxServer) -> None:
    for path in request(server, "GET", "/openapi/v3")["paths"]:
        text = send(server, "GET", f"/openapi/v3/{path}")[2].decode()
        schemas = json.loads(text)["components"]["schemas"]
        wanted = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
        assert wanted <= set(schemas), path


def test_openapi_v2_is_protobuf_for_who_asks(server: SandboxServer) -> None:
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    _, headers, body = send(server, "GET", "/openapi/v2", Accept=accept)
    assert headers["Content-Type"] == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    assert body.startswith(b"\x0a\x032.0")


def test_openapi_v2_is_sent_once_to_who_keeps_it(server: SandboxServer) -> None:
    _, headers, body = send(server, "GET", "/openapi/v2")
    assert json.loads(body)["definitions"]
    again = send(server, "GET", "/openapi/v2", If_None_Match=headers["ETag"])
    assert (again[0], again[2]) == (304, b"")
    assert send(server, "GET", "/openapi/v2", If_None_Match='"another"')[2] == body


def test_reviews_are_answered_with_yes(server: SandboxServer) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    assert request(server, "POST", path, asked)["status"]["allowed"] is True


def test_a_review_is_no_table(server: SandboxServer) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    code, _, body = send(server, "POST", path, b"{}", Accept=accept, Content_Type="application/json")
    assert (code, json.loads(body)["reason"]) == (406, "NotAcceptable")


def test_an_approval_changes_the_status_alone(server: SandboxServer) -> None:
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    spec = {"request": "Y3Ny", "signerName": "example.com/s", "usages": ["client auth"]}
    request(server, "POST", path, {"metadata": {"name": "r"}, "spec": spec})
    conditions = [{"type": "Approved", "status": "True"}]
    body = {
        "metadata": {"name": "r"},
        "spec": {"signerName": "another"},
        "status": {"conditions": conditions},
    }
    request(server, "PUT", f"{path}/r/approval", body)
    kept = request(server, "GET", f"{path}/r")
    assert (kept["spec"], kept["status"]) == (spec, {"conditions": conditions})
