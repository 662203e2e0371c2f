"""HTTP layer of the API server: routing, request bodies, representations, watches, discovery, OpenAPI."""
