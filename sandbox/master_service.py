"""The Service `default/kubernetes`: how clients inside a cluster find the API server."""

from __future__ import annotations

from sandbox.builtin import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from sandbox.kinds import ApiKind
from sandbox.objects import Obj

NAME = "kubernetes"
CLUSTER_IP = "10.96.0.1"


def objects(host: str, port: int) -> list[tuple[ApiKind, Obj]]:
    """The Service, and where it leads, as Endpoints and as an EndpointSlice."""
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
