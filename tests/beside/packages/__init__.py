"""Small Go programs around Kubernetes' own packages: random inputs in, answers out, compared in bulk."""
