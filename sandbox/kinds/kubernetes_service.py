"""The Service `default/kubernetes`, by which clients in the cluster find the API server."""

from __future__ import annotations

from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from sandbox.objects import Obj

NAME = "kubernetes"
CLUSTER_IP = "10.96.0.1"


def objects(host: str, port: int) -> list[tuple[ApiKind, Obj]]:
    """The Service, its Endpoints and its EndpointSlice."""
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": CLUSTER_IP,
            "clusterIPs": [CLUSTER_IP],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
        },
    }
    mirrored = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    endpoints = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": NAME, "labels": mirrored},
        "subsets": [{"addresses": [{"ip": host}], "ports": ports}],
    }
    endpoint_slice = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": NAME, "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": ports,
    }
    return [(SERVICES, service), (ENDPOINTS, endpoints), (ENDPOINT_SLICES, endpoint_slice)]
