"""Answers to questions about a cluster: what happens if, why a pod waits, when it starts, who uses what.

Each answer is a typed value, computed by the engine in a simulation of the cluster. Command line and programs
print the same values.
"""
