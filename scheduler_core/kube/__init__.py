"""The only door to the API server: connections, typed errors, reads, writes, watches, leases and events."""
