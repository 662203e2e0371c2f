"""Admission chain of the sandbox's API server: built-in plugins and webhooks in kube-apiserver's order."""
