"""The client of the Kubernetes API: connections, typed errors, reads, writes, watches, leases and events."""
