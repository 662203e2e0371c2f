"""The scheduling loop: inbox, event handlers, clock and progress."""
