"""The web view: what `kubectl elasticquota ui` and the console in the cluster show, and to whom."""
