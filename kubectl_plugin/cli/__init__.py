"""Command line of both plugins: entry point, flags, completion and failures."""
