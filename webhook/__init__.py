"""The admission webhook: decides reviews of pods, quotas and groups for the API server."""
