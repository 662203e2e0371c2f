"""HTTP to the API server: endpoint, session, connections, TLS, HTTP/2 and response parsing."""
