"""Nominated pods: who goes first, what they will use, for whom they wait, what others may have until then."""
