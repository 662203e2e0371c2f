"""Kubeconfig files and credentials."""
