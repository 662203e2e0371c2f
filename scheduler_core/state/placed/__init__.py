"""Placed pods as columns: the pod table, the grid by node, labels and priority levels."""
