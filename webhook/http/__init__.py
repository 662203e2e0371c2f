"""The HTTP side of the webhook: TLS server, connections, the Flask application, AdmissionReview."""
