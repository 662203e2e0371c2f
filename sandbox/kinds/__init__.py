"""API kinds: built-in kinds and types, CRDs, printer columns, and logic of single kinds."""
