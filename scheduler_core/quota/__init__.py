"""Elastic quotas: ledger, admission rules, validation, lending and reservations. No I/O, no numpy."""
