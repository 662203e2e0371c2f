"""Attempts that wait for the answers of HTTP extenders."""
