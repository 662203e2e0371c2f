"""Clusters with a real kube-apiserver and etcd, completed by the sandbox's kubelet and controllers."""
