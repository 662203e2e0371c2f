"""The checks of `kubectl elasticquota doctor`: each takes parsed objects and returns findings. Pure."""
