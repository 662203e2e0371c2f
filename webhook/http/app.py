"""The Flask application: POST /mutate and POST /validate answer admission reviews, all else is refused.

`create_app` makes the application and registers both paths as Flask views. The API server waits for one of
them before it stores any pod, so well-formed POSTs take a fast path: `ReviewFastPath`, the outermost WSGI
layer, calls the same `ReviewEndpoint` as the views, but without Flask's routing, request context and response
objects. All other requests go to Flask. The reason and the measured gain are in
docs/adr/0006-flask-and-the-fast-path.md.

The application depends on no particular server: limits of body, memory and time hold on any WSGI server.
Health and metrics have a port of their own (`webhook.http.health`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from webhook.http.client_certificates import ClientCertificates
from webhook.http.headers import header_violation
from webhook.http.health import Lifecycle
from webhook.http.review_endpoint import JSON, Decide, Environ, Reply, ReviewEndpoint
from webhook.metrics import WebhookMetrics
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.view.freshness import Freshness

Wsgi = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


def create_app(
    dispatcher: ReviewDispatcher,
    metrics: WebhookMetrics,
    lifecycle: Lifecycle | None = None,
    freshness: Freshness | None = None,
    clients: ClientCertificates | None = None,
    *,
    fast_path: bool = True,
) -> Flask:
    """The Flask application that answers reviews with the verdicts of `dispatcher`.

    Without `fast_path` reviews go through Flask as well; the answers are the same.
    """
    app = Flask("muster-webhook", static_folder=None)
    life = lifecycle or Lifecycle()
    endpoint = ReviewEndpoint(metrics, freshness or Freshness(), clients or ClientCertificates())
    paths: dict[str, Decide] = {"/mutate": dispatcher.mutate, "/validate": dispatcher.validate}
    for path, decide in paths.items():
        view = partial(_view, endpoint, decide)
        app.add_url_rule(path, path, view, methods=["POST"], provide_automatic_options=False)
    _add_errors(app, endpoint)

    @app.after_request
    def end_connection_before_shutdown(response: Response) -> Response:
        if life.stopping:
            response.headers["Connection"] = "close"
        return response

    layer = ReviewFastPath(app.wsgi_app, paths if fast_path else {}, endpoint, life)
    app.wsgi_app = layer  # type: ignore[method-assign]
    return app


class ReviewFastPath:
    """The outermost WSGI layer: answers a POST to one of `paths`, and hands everything else to Flask.

    Requests whose headers exceed the limits are refused before Flask looks at them.
    """

    def __init__(
        self, flask: Wsgi, paths: Mapping[str, Decide], endpoint: ReviewEndpoint, life: Lifecycle
    ) -> None:
        self.endpoint = endpoint
        self._flask = flask
        self._paths = paths
        self._life = life

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        violation = header_violation(environ)
        decide = self._paths.get(environ.get("PATH_INFO", ""))
        if violation is not None:
            reply = self.endpoint.refuse(*violation, close=True)
        elif decide is None or environ["REQUEST_METHOD"] != "POST":
            return self._flask(environ, start_response)
        else:
            reply = self.endpoint.answer(environ, decide)
        headers = [("Content-Type", JSON), ("Content-Length", str(len(reply.body)))]
        if reply.close or self._life.stopping:
            headers.append(("Connection", "close"))
        start_response(_status(reply.code), headers)
        return (reply.body,)


def _view(endpoint: ReviewEndpoint, decide: Decide) -> Response:
    """The Flask view of a review path."""
    return _response(endpoint.answer(request.environ, decide))


def _add_errors(app: Flask, endpoint: ReviewEndpoint) -> None:
    """Answer what Flask refuses, such as unknown paths and other methods, with a metav1.Status."""

    @app.errorhandler(HTTPException)
    def refuse(error: HTTPException) -> Response:
        return _response(endpoint.refuse(error.code or 400, error.description or error.name))

    @app.errorhandler(Exception)
    def fail(error: Exception) -> Response:
        return _response(endpoint.fail())


def _response(reply: Reply) -> Response:
    response = Response(reply.body, reply.code, content_type=JSON)
    if reply.close:
        response.headers["Connection"] = "close"
    return response


@lru_cache(maxsize=64)
def _status(code: int) -> str:
    return f"{code} {HTTPStatus(code).phrase}"
