"""The Flask application, its answers, and the server."""
