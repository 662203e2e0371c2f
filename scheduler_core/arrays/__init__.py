"""Columns of integers: the resource index and the growable tables that the state is made of."""
