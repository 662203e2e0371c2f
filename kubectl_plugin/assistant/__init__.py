"""`muster-mcp`: the answers of the command line as read-only tools (docs/answers.md#muster-mcp)."""
