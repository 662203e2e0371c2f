"""The ConfigMaps and the Job of the topology seed, and a scheduler configuration for them."""

from __future__ import annotations

# Takes `kubeconfig` and the `namespace` of the topology.
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: {kubeconfig}, qps: 1000, burst: 1000}}
leaderElection: {{leaderElect: false}}
profiles:
- schedulerName: sakkara
  plugins:
    multiPoint: {{enabled: [{{name: ClusterTopologyPlacementGroup}}]}}
  pluginConfig:
  - name: ClusterTopologyPlacementGroup
    args: {{topologyConfigMapNameSpace: {namespace}}}
"""

TOPOLOGY = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: cluster-topology-configmap
  labels: {"sakkara.topology": ""}
data:
  name: "cluster-tree"
  resource-names: |
    [ "cpu", "memory" ]
  level-names: |
    [ "rack", "node" ]
  tree: |
    {
      "rack-0": { "node-0": {}, "node-1": {}, "node-2": {} },
      "rack-1": { "node-3": {}, "node-4": {}, "node-5": {} }
    }
"""

GROUP = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: group-a
  labels: {"sakkara.group": ""}
data:
  "name": "group-a"
  "size": "8"
  "priority": "0"
  "constraints": |
    { "rack": { "type": "pack" }, "node": { "type": "spread" } }
"""

JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  generateName: job-a-
spec:
  parallelism: 8
  completions: 8
  template:
    metadata:
      labels:
        sakkara.group.name: "group-a"
      annotations:
        sandbox.muster.dev/run-seconds: "600"
    spec:
      schedulerName: sakkara
      containers:
      - name: main
        image: busybox
        command: ["sh", "-c", "sleep 600"]
        resources:
          requests: {cpu: "100m", memory: "128Mi"}
          limits: {cpu: "200m", memory: "128Mi"}
      restartPolicy: OnFailure
"""
