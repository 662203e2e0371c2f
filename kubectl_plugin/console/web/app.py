"""The Flask application of the console: pages as HTML, as fragments that replace themselves, and as JSON.

It only reads. Every answer has a strict Content-Security-Policy: no script, style, frame or connection but
its own. A fragment whose content did not change is answered with 304.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import Any, Final

from flask import Flask, Response, redirect, render_template, request
from jinja2 import StrictUndefined
from markupsafe import Markup, escape
from werkzeug.exceptions import HTTPException

from kubectl_plugin.cli.errors import describe
from kubectl_plugin.console.access.viewer import Gate, Refused, Viewer
from kubectl_plugin.console.cluster.questions import QuestionRefused
from kubectl_plugin.console.pages.page import ConsolePage, Content, PageRequest, Services
from kubectl_plugin.console.pages.redaction import Redactor
from kubectl_plugin.console.pages.what_if import ON_THE_COMMAND_LINE
from kubectl_plugin.console.web.answers import HEADERS, AnswerCache, CachedAnswer, etag_of, words_header
from kubectl_plugin.console.web.origins import origin_problem
from kubectl_plugin.render.structured import encoded
from scheduler_core.errors import MusterError
from scheduler_core.model.printable import visible, visible_lines

_HTML: Final = "text/html; charset=utf-8"
_TEXT: Final = "text/plain; charset=utf-8"
_MOST_FORM: Final = 1 << 20
# Times as Muster writes them.
_TIMES: Final = re.compile(r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)")
# What was sent is understood, but cannot be answered.
_INVALID: Final = 422
# Seconds that the first request waits for the cluster to be read.
FIRST_SECONDS: Final = 2.0
_STATIC: Final = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def create_app(services: Services, gate: Gate, pages: Sequence[ConsolePage], hosts: frozenset[str]) -> Flask:
    """The application. `hosts` are the values of the Host header that it answers; empty: any."""
    app = Flask("kubectl_plugin.console", static_folder=None, template_folder="templates")
    app.config["MAX_CONTENT_LENGTH"] = app.config["MAX_FORM_MEMORY_SIZE"] = _MOST_FORM
    environment = app.jinja_env
    environment.undefined = StrictUndefined
    environment.trim_blocks = environment.lstrip_blocks = True
    # Everything that is shown came from the cluster: no name may turn the direction of text or hide in it.
    environment.finalize = lambda value: visible(value) if type(value) is str else value
    environment.filters["moment"] = moment
    environment.filters["moments"] = moments
    environment.filters["path"] = path
    environment.filters["lines"] = lines
    front = _Front(services, gate, pages, hosts)
    app.before_request(front.check)
    app.after_request(_with_headers)
    for page in pages:
        methods = ["GET", "POST"] if page.posts else ["GET"]
        app.add_url_rule(page.path, page.name, partial(front.show, page), methods=methods)
    app.add_url_rule("/", "start", partial(front.start, pages[0].path), methods=["GET"])
    if gate.takes_tokens:
        app.add_url_rule("/login", "login", partial(front.login, pages[0].path), methods=["GET", "POST"])
        app.add_url_rule("/logout", "logout", front.logout, methods=["POST"])
    app.add_url_rule("/static/<name>", "asset", _asset, methods=["GET"])
    app.register_error_handler(Refused, front.refuse)
    app.register_error_handler(HTTPException, front.refuse_http)
    return app


def described(error: MusterError) -> str:
    """What is wrong, for a page: a question's own words, without what commands write before them."""
    return error.problem if isinstance(error, QuestionRefused) else describe(error)


def moment(text: str) -> Markup:
    """A time that the script shows as an age; without script it stays as it is."""
    return Markup('<time datetime="{0}">{0}</time>').format(visible(text))


def moments(text: str) -> Markup:
    """A text with the times in it as `moment` gives them."""
    parts = _TIMES.split(text)
    return Markup().join(moment(part) if number % 2 else visible(part) for number, part in enumerate(parts))


def path(name: str) -> Markup:
    """A name that breaks behind its slashes, where there is little room."""
    return Markup("/<wbr>").join(visible(name).split("/"))


def lines(text: str) -> Markup:
    """A text of several lines for a textarea, which the browser sends back as it is."""
    return escape(visible_lines(text.replace("\r\n", "\n")))


def _with_headers(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def _asset(name: str) -> Response:
    """The style sheet and the script."""
    kind = _STATIC.get(name)
    if kind is None:
        raise Refused(404, "there is no such file")
    body = files("kubectl_plugin.console").joinpath("static", name).read_bytes()
    answer = CachedAnswer(body, etag_of(body), kind)
    return _respond(answer)


def _headers() -> dict[str, str]:
    """The headers of the request, names in lower case."""
    return {name.lower(): value for name, value in request.headers.items()}


def _respond(answer: CachedAnswer) -> Response:
    """The answer, or 304 if the browser has it."""
    quoted = f'"{answer.etag}"'
    if request.headers.get("If-None-Match", "") == quoted:
        return Response(status=304, headers=[("ETag", quoted), *answer.headers])
    headers = [("ETag", quoted), *answer.headers]
    return Response(answer.body, answer.status, content_type=answer.kind, headers=headers)


class _Front:
    """Answers the requests."""

    def __init__(
        self, services: Services, gate: Gate, pages: Sequence[ConsolePage], hosts: frozenset[str]
    ) -> None:
        self._services = services
        self._gate = gate
        self._pages = pages
        self._hosts = hosts
        self._answers = AnswerCache()

    def check(self) -> None:
        """Refuse requests that other sites make, and names that are not ours."""
        problem = origin_problem(request.method, _headers(), self._hosts)
        if problem:
            raise Refused(403, problem)

    def start(self, first: str) -> Any:
        """The link of the command: it is exchanged for a cookie.

        The answer is a page that goes on by itself. Browsers do not send a Strict cookie on a redirect of a
        request that another site began, such as a terminal in a web page.
        """
        token = request.args.get("token", "")
        if token and not self._gate.takes_tokens:
            body = render_template("entered.html", first=first)
            if request.method == "HEAD":
                # Who only looks at the link, such as the preview of a chat, must not use it up.
                return Response(body, content_type=_HTML)
            return self._with_session(Response(body, content_type=_HTML), self._gate.open(token))
        self._viewer()
        return redirect(first, 303)

    def login(self, first: str) -> Any:
        """The form for a token, and its answer."""
        if request.method != "POST":
            return Response(render_template("login.html", problem=""), content_type=_HTML)
        return self._with_session(redirect(first, 303), self._gate.open(request.form.get("token", "")))

    def logout(self) -> Any:
        """End the session."""
        self._gate.close(request.cookies.get(self._gate.cookie, ""))
        answer = redirect("/login", 303)
        answer.delete_cookie(self._gate.cookie, path="/")
        return answer

    def _with_session(self, answer: Any, session: str) -> Any:
        # Only this site sends the cookie, and no script reads it.
        answer.set_cookie(
            self._gate.cookie, session, httponly=True, samesite="Strict", secure=request.is_secure, path="/"
        )
        return answer

    def show(self, page: ConsolePage, **path: str) -> Any:
        """A page, its fragment, or its document."""
        watch = self._services.watch
        ready = watch.ready
        early = not ready.is_set()
        viewer = self._viewer()
        if early:
            # Strangers do not get so far: each request that waits keeps a thread of the server.
            if not ready.wait(FIRST_SECONDS):
                return self._still_reading(page, viewer)
            # Rights are asked for by namespace, and which there are is known only now.
            viewer = self._viewer()
        form = request.args.get("format", "")
        fragment = "fragment" in request.args
        if form not in ("", "json", "csv"):
            raise Refused(400, f"format {form!r} is not known; json is")
        params = {key: value for key, value in request.args.items() if key not in ("format", "fragment")}
        asked = PageRequest(viewer, params, path, request.form.to_dict())
        key = (
            page.name,
            form,
            fragment,
            viewer.key,
            viewer.name,
            *sorted(params.items()),
            *sorted(path.items()),
        )
        notices = watch.trouble(), watch.uninstalled, tuple(watch.unreadable())
        version = (page.version(self._services), *notices)
        answer = self._answers.get(key, version)
        if answer is None:
            answer, current = self._made(page, asked, form, fragment)
            if current and not page.posts:
                self._answers.put(key, version, answer)
        return _respond(answer)

    def _made(
        self, page: ConsolePage, asked: PageRequest, form: str, fragment: bool
    ) -> tuple[CachedAnswer, bool]:
        """The answer, and whether it stays true until an object changes."""
        problem = ""
        try:
            content = page.content(self._services, asked)
        except MusterError as error:
            problem = asked.redactor(self._services).text(described(error))
            if form or not page.posts:
                raise Refused(_INVALID, problem) from None
            content = self._blank(page, asked)
        # Documents are those of the command line, which has no field for that.
        headers = (
            *words_header("X-Muster-Stale", (self._trouble(asked.viewer), content.stale)),
            *words_header("X-Muster-Searching", (content.searching,)),
        )
        if form == "csv":
            if content.csv is None:
                raise Refused(400, "this page has no CSV; json is known")
            body = content.csv().encode()
            kind = "text/csv; charset=utf-8"
            return CachedAnswer(body, etag_of(body), kind, headers), content.current
        if form:
            body = encoded(content.document(), "json").encode()
            return CachedAnswer(body, etag_of(body), "application/json", headers), content.current
        values = {**content.values, "lacks": content.lacks, "problem": problem}
        body = self._html(f"{page.name}.html", page, asked.viewer, content.title, values, fragment).encode()
        status = _INVALID if problem else 200
        return CachedAnswer(body, etag_of(body), _HTML, headers, status), content.current and not problem

    def _blank(self, page: ConsolePage, asked: PageRequest) -> Content:
        """The form with what was typed, without an answer."""
        content = page.content(self._services, PageRequest(asked.viewer, {}, asked.path))
        typed = {"form": {**content.values["form"], **asked.form}}
        return replace(content, values={**content.values, **typed})

    def _html(
        self,
        template: str,
        page: ConsolePage | None,
        viewer: Viewer,
        title: str,
        values: Mapping[str, Any],
        fragment: bool,
    ) -> str:
        watch = self._services.watch
        return render_template(
            template,
            **values,
            layout="fragment.html" if fragment else "layout.html",
            page=page,
            pages=[item for item in self._pages if "<" not in item.path],
            page_title=title or (page.title if page is not None else "Muster"),
            viewer=viewer,
            server=watch.client.session.endpoint.server,
            trouble=self._trouble(viewer),
            # What the console in the cluster may not list is its own matter, not the viewer's.
            unread=() if self._gate.takes_tokens else watch.unread,
            uninstalled=watch.uninstalled,
            unreadable=self._unreadable(viewer),
            takes_tokens=self._gate.takes_tokens,
            live=page is not None and not page.posts,
        )

    def _trouble(self, viewer: Viewer) -> str:
        """Why what is shown may be old, for this viewer; else empty."""
        trouble = self._services.watch.trouble()
        return Redactor.of(viewer, self._services.watch.cluster).text(trouble) if trouble else ""

    def _unreadable(self, viewer: Viewer) -> list[str]:
        """Why objects that the viewer may see are left out, or shown as they were before."""
        watch = self._services.watch
        redactor = Redactor.of(viewer, watch.cluster)
        seen = [
            error
            for error in watch.unreadable()
            if (viewer.sees(error.namespace) if error.namespace else viewer.whole)
        ]
        return [redactor.text(visible(str(error))) for error in seen]

    def _still_reading(self, page: ConsolePage, viewer: Viewer) -> Response:
        """A page that loads itself again, until the cluster was read."""
        values = {"lacks": (), "problem": ""}
        headers = {"Refresh": "1", "Retry-After": "1"}
        if request.args.get("format"):
            refused = self.refuse(Refused(503, "the cluster is being read"))
            refused.headers.update(headers)
            return refused
        body = self._html("waiting.html", page, viewer, "", values, "fragment" in request.args)
        return Response(body, 503, headers, content_type=_HTML)

    def _viewer(self) -> Viewer:
        return self._gate.viewer(dict(request.cookies), request.environ)

    def refuse(self, error: Refused) -> Response:
        """A page that says why; as JSON, or as a line of text instead of CSV, for programs."""
        form = request.args.get("format")
        if form == "csv":
            return Response(f"{visible(error.problem)}\n", error.status, content_type=_TEXT)
        if form == "json":
            document = {"status": error.status, "message": visible(error.problem)}
            return Response(encoded(document, "json"), error.status, content_type="application/json")
        template = "login.html" if error.status == 401 and self._gate.takes_tokens else "refused.html"
        body = render_template(template, status=error.status, problem=error.problem)
        return Response(body, error.status, content_type=_HTML)

    def refuse_http(self, error: HTTPException) -> Response:
        """What Flask refuses: unknown paths and methods, forms that are too large."""
        if error.code == 413:
            return self.refuse(
                Refused(413, f"the form is longer than {_MOST_FORM >> 20} MiB; {ON_THE_COMMAND_LINE}")
            )
        return self.refuse(Refused(error.code or 400, error.description or error.name))
