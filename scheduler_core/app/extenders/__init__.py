"""HTTP extenders: configuration, calls and messages."""
