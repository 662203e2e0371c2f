"""Translation of configurations from versions before v1beta2."""
