"""Objects of the API server as typed, immutable values; parsers and formatters."""
