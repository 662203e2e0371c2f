"""kubectl beside the plugins' client: which kubeconfigs they take, and what arrives at a server."""
