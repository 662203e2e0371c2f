"""What `kubectl elasticquota doctor` reads, and the writes of `--fix`; the checks are in the answers."""
