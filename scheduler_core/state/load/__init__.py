"""Load of nodes in the state: reports, estimates and columns."""
