"""The webhook's view of the cluster: the cache, reads from the API server, and the audit."""
