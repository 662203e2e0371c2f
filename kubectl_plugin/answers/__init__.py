"""The commands that answer questions about a cluster: one module per command, and its text."""
