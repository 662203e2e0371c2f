"""Who looks: one-time links on the user's own machine, bearer tokens and proxies in the cluster."""
