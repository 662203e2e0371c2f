"""The volume plugins."""
