"""`muster-sandbox demo`: a tour of Muster with real kubectl that checks its own output."""

from sandbox.demo.cli import demo

__all__ = ["demo"]
