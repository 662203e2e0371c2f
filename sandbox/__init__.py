"""Muster's development cluster in one process: a Kubernetes API server with kubelet and controllers."""
