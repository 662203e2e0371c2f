"""Serving certificates: renewal, storage, and the webhook configurations that trust them."""
