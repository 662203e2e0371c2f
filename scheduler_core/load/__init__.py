"""Arithmetic of measured and estimated load; pure functions without knowledge of scheduling."""
