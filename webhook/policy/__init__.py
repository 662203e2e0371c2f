"""Decides reviews: the dispatcher, and one file for each kind of object."""
