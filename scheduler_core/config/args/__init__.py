"""Typed plugin arguments: fields, defaults and validation."""
