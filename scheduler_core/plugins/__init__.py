"""The plugins: one file each, unaware of each other."""
