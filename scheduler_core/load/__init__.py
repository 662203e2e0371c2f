"""Arithmetic of measured and estimated load; pure, and knows nothing of scheduling."""
