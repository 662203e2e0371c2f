"""The application: a POST to /mutate or /validate, and nothing else. Health and metrics are at another port.

It knows nothing of the server that runs it: limits of body, memory and time hold for any WSGI server.
"""

from __future__ import annotations

from flask import Flask, Response
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from webhook.clients import Clients
from webhook.freshness import Freshness
from webhook.lifecycle import Lifecycle
from webhook.metrics import Metrics
from webhook.reviews import JSON, Reply, Reviews, broken, problem
from webhook.service import Service


def create_app(
    service: Service,
    metrics: Metrics,
    lifecycle: Lifecycle | None = None,
    freshness: Freshness | None = None,
    clients: Clients | None = None,
) -> Flask:
    """The application on one service."""
    app = Flask("muster-webhook", static_folder=None)
    life, fresh = lifecycle or Lifecycle(), freshness or Freshness()
    paths = {"/mutate": service.mutate, "/validate": service.validate}
    app.wsgi_app = Reviews(app.wsgi_app, paths, metrics, life, fresh, clients or Clients())  # type: ignore[method-assign]

    def refuse_method() -> Response:
        raise MethodNotAllowed(["POST"])

    for path in paths:
        app.add_url_rule(path, view_func=refuse_method, methods=["GET", "PUT", "PATCH", "DELETE"])

    @app.after_request
    def part(response: Response) -> Response:
        if life.stopping:
            response.headers["Connection"] = "close"
        return response

    _add_errors(app, metrics)
    return app


def _add_errors(app: Flask, metrics: Metrics) -> None:
    @app.errorhandler(HTTPException)
    def refuse(error: HTTPException) -> Response:
        return _response(problem(metrics, error.code or 400, error.description or error.name))

    @app.errorhandler(Exception)
    def fail(error: Exception) -> Response:
        return _response(broken(metrics))


def _response(reply: Reply) -> Response:
    return Response(reply.body, reply.code, content_type=JSON)
