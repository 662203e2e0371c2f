"""The commands, one file each with its flags, help and output.

Modules that need the API client or numpy are imported inside functions, so that `--help` starts fast.
"""
