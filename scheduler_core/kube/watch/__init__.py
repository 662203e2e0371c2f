"""Reflectors: lists and watches, decoded and turned into events."""
