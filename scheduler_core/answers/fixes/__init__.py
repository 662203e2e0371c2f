"""The smallest changes that would start waiting work, each tried by the engine."""
