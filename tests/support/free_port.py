"""Ports for programs that are started later, or again: the tests' name for the ports of the sandbox."""

from sandbox.ports import free_port

__all__ = ["free_port"]
