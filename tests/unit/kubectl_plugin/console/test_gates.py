"""Who gets in, how long, and as whom: tables over both gates, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from kubectl_plugin.console.access import bearer, local
from kubectl_plugin.console.access.bearer import BearerGate, ProxyTrust, user_key
from kubectl_plugin.console.access.local import LocalGate
from kubectl_plugin.console.access.rights import RightsReader
from kubectl_plugin.console.access.viewer import Refused, Viewer
from scheduler_core.errors import MusterError
from scheduler_core.kube.access_reviews import ReviewedUser
from scheduler_core.serving.tls import CLIENT

HOLDS = bearer.HOLDS_SECONDS


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Reviews:
    """An API server with a user for each token that begins with `t-`; counts what it was asked."""

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.asked: list[str] = []
        self.down = False
        self.allowed: Collection[tuple[str, str]] | None = None

    def user_of(self, token: str) -> ReviewedUser | None:
        self.asked.append(token)
        if self.down:
            raise MusterError("the API server is away")
        name = token.removeprefix("t-")
        return ReviewedUser(name) if token.startswith("t-") and token not in self.gone else None

    def may_list(self, user: ReviewedUser, resource: Any, namespace: str = "") -> bool:
        return self.allowed is None or (resource.plural, namespace) in self.allowed


class Gate:
    """A gate of the console in the cluster, with its clock and its API server."""

    def __init__(self, *, settled: bool = True) -> None:
        self.clock, self.reviews, self.rights = Clock(), Reviews(), 0
        self.settled = settled
        trust = ProxyTrust(frozenset({"proxy"}))
        reviews: Any = self.reviews
        rights: Any = self
        self.gate = BearerGate(reviews, rights, trust, lambda: self.settled, self.clock)

    def read(self, user: ReviewedUser) -> Viewer:
        """The rights of a user."""
        self.rights += 1
        return Viewer(user.username)

    def by_token(self, token: str) -> str:
        return self.gate.viewer({}, {"HTTP_AUTHORIZATION": f"Bearer {token}"}).name

    def by_cookie(self, session: str) -> str:
        return self.gate.viewer({BearerGate.cookie: session}, {}).name

    def refused(self, cookies: Mapping[str, str], environ: Mapping[str, Any]) -> tuple[int, str]:
        with pytest.raises(Refused) as found:
            self.gate.viewer(cookies, environ)
        return found.value.status, found.value.problem


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        pytest.param({"HTTP_AUTHORIZATION": "Bearer t-ada"}, "ada", id="a bearer token"),
        pytest.param({"HTTP_AUTHORIZATION": "bEARER   t-ada "}, "ada", id="in any case and with spaces"),
        pytest.param({CLIENT: "proxy", "HTTP_X_REMOTE_USER": "eve"}, "eve", id="the header of a proxy"),
        pytest.param(
            {CLIENT: "proxy", "HTTP_X_REMOTE_USER": "eve", "HTTP_AUTHORIZATION": "Bearer t-ada"},
            "eve",
            id="the proxy before the token",
        ),
        pytest.param(
            {CLIENT: "proxy", "HTTP_AUTHORIZATION": "Bearer t-ada"}, "ada", id="a proxy that names nobody"
        ),
        pytest.param({CLIENT: "other", "HTTP_AUTHORIZATION": "Bearer t-ada"}, "ada", id="another client"),
    ],
)
def test_who_somebody_is(environ: dict[str, str], name: str) -> None:
    assert Gate().gate.viewer({}, environ).name == name


@pytest.mark.parametrize(
    ("environ", "status", "problem"),
    [
        pytest.param({}, 401, "log in with a token of the cluster", id="nothing"),
        pytest.param(
            {"HTTP_AUTHORIZATION": "Bearer "}, 401, "log in with a token of the cluster", id="no token"
        ),
        pytest.param(
            {"HTTP_AUTHORIZATION": "Basic t-ada"}, 401, "log in with a token of the cluster", id="basic"
        ),
        pytest.param({"HTTP_AUTHORIZATION": "Bearer x"}, 401, "this token has ended", id="unknown"),
        pytest.param(
            {"HTTP_AUTHORIZATION": f"Bearer t-{'x' * (16 << 10)}"}, 401, "this token has ended", id="too long"
        ),
        pytest.param(
            {"HTTP_X_REMOTE_USER": "eve"},
            403,
            "headers that name a user are believed from the authenticating proxy only",
            id="a header of nobody",
        ),
        pytest.param(
            {"HTTP_X_REMOTE_USER": "eve", CLIENT: "other"},
            403,
            "headers that name a user are believed from the authenticating proxy only",
            id="a header of another client",
        ),
    ],
)
def test_who_does_not_get_in(environ: dict[str, str], status: int, problem: str) -> None:
    assert Gate().refused({}, environ) == (status, problem)


def test_the_longest_token_is_asked_for() -> None:
    found = Gate()
    token = "t-" + "x" * ((16 << 10) - 2)
    assert found.by_token(token) == token[2:]


def test_a_proxy_gives_groups() -> None:
    environ = {CLIENT: "proxy", "HTTP_X_REMOTE_USER": "eve", "HTTP_X_REMOTE_GROUP": "a, ,b ,"}
    user = ProxyTrust(frozenset({"proxy"})).user(environ)
    assert user == ReviewedUser("eve", groups=("system:authenticated", "a", "b"))
    assert ProxyTrust().user({}) is None


def test_what_the_api_server_said_holds_for_half_a_minute() -> None:
    found = Gate()
    assert found.by_token("t-ada") == "ada"
    found.reviews.gone.add("t-ada")
    found.clock.now += HOLDS - 0.5
    assert found.by_token("t-ada") == "ada"
    assert (found.reviews.asked, found.rights) == (["t-ada"], 1)
    found.clock.now += 0.5
    assert found.refused({}, {"HTTP_AUTHORIZATION": "Bearer t-ada"}) == (401, "this token has ended")
    found.reviews.gone.clear()
    assert found.refused({}, {"HTTP_AUTHORIZATION": "Bearer t-ada"}) == (401, "this token has ended")
    found.clock.now += HOLDS
    assert found.by_token("t-ada") == "ada"
    assert (found.reviews.asked, found.rights) == (["t-ada"] * 3, 2)


def test_rights_are_not_kept_before_the_namespaces_are_known() -> None:
    found = Gate(settled=False)
    assert [found.by_token("t-ada"), found.by_token("t-ada")] == ["ada", "ada"]
    assert found.rights == 2
    found.settled = True
    assert [found.by_token("t-ada"), found.by_token("t-ada")] == ["ada", "ada"]
    assert found.rights == 3


def test_an_api_server_that_is_away_is_no_answer() -> None:
    found = Gate()
    found.reviews.down = True
    told = (503, "the API server could not be asked; the log of the console says why")
    environ = {"HTTP_AUTHORIZATION": "Bearer t-ada"}
    assert found.refused({}, environ) == told
    found.reviews.down = False
    assert found.by_token("t-ada") == "ada"
    # Each of the places in the queue is free again.
    found.reviews.down = True
    assert [found.refused({}, {"HTTP_AUTHORIZATION": f"Bearer t-{n}"}) for n in range(9)] == [told] * 9


def test_a_session_is_its_token_for_half_a_day() -> None:
    found = Gate()
    session = found.gate.open(" t-ada ")
    assert found.by_cookie(session) == "ada"
    found.clock.now += bearer.SESSION_SECONDS - 1
    assert found.by_cookie(session) == "ada"
    found.clock.now += 1
    told = (401, "log in with a token of the cluster")
    assert found.refused({BearerGate.cookie: session}, {}) == told
    assert found.refused({BearerGate.cookie: "x"}, {}) == told
    session = found.gate.open("t-ada")
    found.gate.close("x")
    assert found.by_cookie(session) == "ada"
    found.gate.close(session)
    assert found.refused({BearerGate.cookie: session}, {}) == told
    with pytest.raises(Refused, match="the API server does not know this token"):
        found.gate.open("x")


def test_a_token_comes_before_a_session() -> None:
    found = Gate()
    cookies = {BearerGate.cookie: found.gate.open("t-ada")}
    assert found.gate.viewer(cookies, {"HTTP_AUTHORIZATION": "Bearer t-eve"}).name == "eve"
    assert found.gate.viewer(cookies, {"HTTP_AUTHORIZATION": "Basic t-eve"}).name == "ada"


def test_sixteen_sessions_of_a_user_and_those_of_others_stay() -> None:
    found = Gate()
    other = found.gate.open("t-eve")
    own = [found.gate.open("t-ada") for _ in range(16)]
    assert {found.by_cookie(session) for session in own} == {"ada"}
    newest = found.gate.open("t-ada")
    assert found.refused({BearerGate.cookie: own[0]}, {})[0] == 401
    assert [found.by_cookie(session) for session in (own[1], own[-1], newest, other)] == [*["ada"] * 3, "eve"]


def test_the_oldest_of_all_sessions_ends() -> None:
    found = Gate()
    sessions = [found.gate.open(f"t-{number}") for number in range(1024)]
    assert found.by_cookie(sessions[0]) == "0"
    found.gate.open("t-last")
    assert found.refused({BearerGate.cookie: sessions[0]}, {})[0] == 401
    assert found.by_cookie(sessions[1]) == "1"


def test_the_oldest_answer_is_forgotten() -> None:
    found = Gate()
    for number in range(1024):
        found.by_token(f"t-{number}")
    found.by_token("t-0")
    assert len(found.reviews.asked) == 1024
    found.by_token("t-1024")
    found.by_token("t-1")
    assert len(found.reviews.asked) == 1025
    found.by_token("t-0")
    assert (len(found.reviews.asked), found.reviews.asked[-1]) == (1026, "t-0")


def test_all_that_rights_depend_on_tells_users_apart() -> None:
    user = ReviewedUser("a", "u", ("g",), {"b": ("2",), "a": ("1",)})
    assert user_key(user) == ("a", "u", ("g",), (("a", ("1",)), ("b", ("2",))))


# The link


def test_the_link_holds_for_ten_minutes_and_the_session_for_a_day() -> None:
    clock = Clock()
    gate = LocalGate(clock)
    clock.now += local.LINK_SECONDS
    session = gate.open(gate.token)
    assert gate.token == ""
    clock.now += local.SESSION_SECONDS
    assert gate.viewer({gate.cookie: session}, {}) == Viewer("")
    clock.now += 1
    with pytest.raises(Refused, match="it can be used once"):
        gate.viewer({gate.cookie: session}, {})


@pytest.mark.parametrize("token", ["", "x", "\udc80"])
def test_a_wrong_link_uses_nothing_up(token: str) -> None:
    gate = LocalGate(Clock())
    with pytest.raises(Refused, match="wrong, was used already or is too old"):
        gate.open(token)
    for cookies in ({}, {gate.cookie: ""}, {gate.cookie: "x"}):
        with pytest.raises(Refused, match="open the link"):
            gate.viewer(cookies, {})
    assert gate.open(gate.token)
    with pytest.raises(Refused, match="was used already"):
        gate.open("")


def test_an_old_link_is_no_use() -> None:
    clock = Clock()
    gate = LocalGate(clock)
    clock.now += local.LINK_SECONDS + 1
    with pytest.raises(Refused, match="too old"):
        gate.open(gate.token)


# Rights

CASES = [
    pytest.param(None, None, id="everything"),
    pytest.param((), frozenset(), id="nothing"),
    pytest.param([("pods", ""), ("elasticquotas", "")], None, id="pods and quotas everywhere"),
    pytest.param([("pods", ""), ("elasticquotas", "a")], frozenset("a"), id="quotas in one namespace"),
    pytest.param([("pods", "a"), ("pods", "b"), ("elasticquotas", "")], frozenset("ab"), id="pods in two"),
    pytest.param(
        [("pods", "a"), ("pods", "b"), ("elasticquotas", "b"), ("elasticquotas", "c")],
        frozenset("b"),
        id="what both allow",
    ),
    pytest.param([("pods", "a"), ("elasticquotas", "c")], frozenset(), id="nothing in common"),
]


@pytest.mark.parametrize(("allowed", "seen"), CASES)
def test_a_namespace_is_seen_where_pods_and_quotas_may_be_listed(
    allowed: Collection[tuple[str, str]] | None, seen: frozenset[str] | None
) -> None:
    reviews: Any = Reviews()
    reviews.allowed = allowed
    viewer = RightsReader(reviews, lambda: "abc", lambda: ["PodGroup"]).read(ReviewedUser("ada"))
    assert (viewer.name, viewer.namespaces) == ("ada", seen)
    everything = allowed is None
    assert (viewer.nodes, viewer.load, viewer.trees) == (everything,) * 3
    nothing: frozenset[str] = frozenset()
    assert (viewer.limits, viewer.reservations) == ((None, None) if everything else (nothing, nothing))
    groups = dict(viewer.groups)
    assert groups.pop("PodGroup") == (None if everything else nothing)
    # Kinds of which there is no group are not asked for.
    assert set(groups.values()) == {nothing}


def test_each_right_is_its_own() -> None:
    reviews: Any = Reviews()
    every = [("pods", ""), ("elasticquotas", "")]
    for plural, fields in (
        ("nodes", {"nodes": True}),
        ("nodemetrics", {"load": True}),
        ("quotagroups", {"trees": True}),
        ("resourcequotas", {"limits": None}),
        ("reservationledgers", {"reservations": None}),
        ("podgroups", {"groups": None}),
    ):
        reviews.allowed = [*every, (plural, "")]
        viewer = RightsReader(reviews, lambda: ["a"], lambda: ["PodGroup"]).read(ReviewedUser("ada"))
        nothing: frozenset[str] = frozenset()
        told = {
            "nodes": viewer.nodes, "load": viewer.load, "trees": viewer.trees, "limits": viewer.limits,
            "reservations": viewer.reservations, "groups": dict(viewer.groups)["PodGroup"],
        }  # fmt: skip
        usual: dict[str, Any] = dict.fromkeys(("nodes", "load", "trees"), False)
        usual |= dict.fromkeys(("limits", "reservations", "groups"), nothing)
        assert told == usual | fields, plural
