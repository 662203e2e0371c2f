"""A real kube-apiserver in place of the sandbox's own, under the sandbox's nodes, kubelet and controllers."""
