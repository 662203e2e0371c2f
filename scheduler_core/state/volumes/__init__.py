"""Volumes, claims and attachments in the state."""
