"""Muster beside the real ones: kube-scheduler, Go packages and kubectl. Their answers are compared.

`rig` plays random worlds beside kube-scheduler, `packages` asks small Go programs, `clients` puts kubectl
beside the plugins' client. What differs on purpose stands in `differences.py`.
"""
