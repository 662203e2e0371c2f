"""Drawings as SVG, made by the server: bars, flows, heat maps, courses over time."""
