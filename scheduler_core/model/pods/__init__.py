"""Pods, typed: requests, affinity, volumes, use in quotas, and adoption."""
