"""Random small clusters that live for many steps, and what must be true of the scheduler after each.

`generate` makes worlds (one integer names one), `player` plays them, `checks` and `rest` judge every decision
and every pause by slow readings of the raw objects (`reading`), `shrink` makes a failing world small.
`python -m tests.support.worlds SEED [SEED2]` prints what is found.
"""
