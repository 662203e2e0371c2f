"""Pure reconcilers: the state and the time in, writes out."""
