"""HTTP servers for applications: cheroot, bounded so that no client can block the others."""
