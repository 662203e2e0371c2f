"""Quotas and groups with all that belongs to them: owners, trees, descriptions, Events, loans."""
