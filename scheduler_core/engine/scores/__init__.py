"""Filter results and scores of nodes, cached per class of equal pods, and the choice of a node."""
