"""The scheduling plugins, one file each; no plugin imports another."""
