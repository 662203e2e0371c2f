"""The exact solver of group placement."""
