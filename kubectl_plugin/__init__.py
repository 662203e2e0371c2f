"""The kubectl plugins `kubectl elasticquota` and `kubectl podgroup`."""
