"""Objects, secrets and settings of a cluster in a folder, from which the cluster starts again."""
