"""Elastic quotas: what is used, who may enter, what is legal, who lends to whom. No I/O, no numpy."""
