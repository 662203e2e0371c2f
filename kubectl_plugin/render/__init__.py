"""Output forms: tables, JSON, YAML, templates, quantities and SVG."""
