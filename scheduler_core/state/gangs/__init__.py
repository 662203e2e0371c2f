"""Gangs in the state: members, budgets, kept nodes."""
