"""`muster-sandbox demo`: a cluster for a minute, played with real kubectl and checked step by step."""

from sandbox.demo.cli import demo

__all__ = ["demo"]
