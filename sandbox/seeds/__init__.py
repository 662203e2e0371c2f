"""Starting a cluster with the objects of a file."""
