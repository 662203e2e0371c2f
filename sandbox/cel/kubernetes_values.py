"""Values of Kubernetes' CEL libraries: quantities, URLs, addresses, versions, moments and spans of time."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import total_ordering
from typing import Any, Final
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from sandbox.cel.syntax import CelError
from sandbox.kinds.stored_quantities import amount_of, scale_of
from scheduler_core.errors import ModelError

_INT64: Final = range(-(2**63), 2**63)
_VERSION: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
)
_SPAN: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_SPAN_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An amount, compared by what it is worth.

    `scale` is the power of ten of which Kubernetes keeps a 64-bit multiple, None where it keeps a decimal of
    any length (resource.Quantity: `i` and `d`): only the former can be an integer for rules. `computed`: it
    is a sum or a difference.
    """

    amount: Fraction
    scale: int | None
    computed: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.amount == other.amount

    def __lt__(self, other: Quantity) -> bool:
        return self.amount < other.amount

    def __hash__(self) -> int:
        return hash(self.amount)

    def __float__(self) -> float:
        return float(self.amount)

    def __neg__(self) -> Quantity:
        return Quantity(-self.amount, self.scale)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.amount + other.amount, _scale_of_sum(self, other), computed=True)


def _scale_of_sum(one: Quantity, other: Quantity) -> int | None:
    """As int64Amount.Add: the finer of both, where all numbers of it fit into 64 bits."""
    if one.scale is None or other.scale is None:
        return None
    if not other.amount:
        return one.scale
    if not one.amount:
        return other.scale
    scale = min(one.scale, other.scale)
    unit = Fraction(10) ** scale
    numbers = (one.amount / unit, other.amount / unit, (one.amount + other.amount) / unit)
    return scale if all(number.numerator in _INT64 for number in numbers) else None


def quantity(text: Any) -> Quantity:
    """The amount of a quantity. Raises CelError."""
    try:
        return Quantity(amount_of(text), scale_of(text))
    except ModelError as error:
        raise CelError(error.problem) from None


def _quantity_or_int(value: Quantity | int) -> Quantity:
    return value if isinstance(value, Quantity) else Quantity(Fraction(value), 0)


def _as_integer(of: Quantity) -> int:
    if not _is_integer(of):
        raise CelError("cannot convert value to integer")
    return of.amount.numerator


def _is_integer(of: Quantity) -> bool:
    return of.scale is not None and of.scale >= 0 and of.amount.numerator in _INT64


def _sign(of: Quantity) -> int:
    return (of.amount > 0) - (of.amount < 0)


def url(text: str) -> SplitResult:
    """A URL with a scheme, or an absolute path, as Go's ParseRequestURI. Raises CelError."""
    found = urlsplit(text)
    if not found.scheme and not text.startswith("/"):
        raise CelError(f"invalid URI for request: {text!r}")
    if found.scheme and not (found.netloc or found.path.startswith("/")):
        raise CelError(f"invalid URI for request: {text!r}")
    return found


def _host(of: SplitResult) -> str:
    return of.netloc.rpartition("@")[2]


def _hostname(of: SplitResult) -> str:
    host = _host(of)
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _port(of: SplitResult) -> str:
    return _host(of).rpartition("]")[2].partition(":")[2]


def ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address. Raises CelError; zones and IPv4 inside IPv6 are none, as in Kubernetes."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise CelError(f"IP Address {text!r} parse error during conversion from string") from None
    if "%" in text or ("." in text and ":" in text):
        raise CelError(f"IP Address {text!r} with a zone or inside another one is not allowed")
    return found


def cidr(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    """An address with the length of its prefix. Raises CelError."""
    address, _, length = text.partition("/")
    if not re.fullmatch(r"\d{1,3}", length):
        raise CelError(f"network address parse error during conversion from string: {text!r}")
    ip(address)
    try:
        return ipaddress.ip_interface(text)
    except ValueError:
        raise CelError(f"network address parse error during conversion from string: {text!r}") from None


def _contains_ip(of: Any, address: Any) -> bool:
    found = ip(address) if isinstance(address, str) else address
    return found.version == of.version and found in of.network


def _contains_cidr(of: Any, other: Any) -> bool:
    found = cidr(other) if isinstance(other, str) else other
    return found.version == of.version and found.network.subnet_of(of.network)


@total_ordering
class SemanticVersion:
    """A semantic version; what follows `+` does not count."""

    def __init__(self, text: str) -> None:
        match = _VERSION.fullmatch(text)
        if match is None:
            raise CelError(f"{text!r} is no semantic version")
        self.numbers = tuple(int(part) for part in match.groups()[:3])
        before = match[4].split(".") if match[4] else []
        # A release is above its candidates; numbers are below words.
        parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in before)
        self._order = (self.numbers, not before, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SemanticVersion) and self._order == other._order

    def __lt__(self, other: SemanticVersion) -> bool:
        return self._order < other._order

    def __hash__(self) -> int:
        return hash(self._order)


def version(text: str, lenient: bool = False) -> SemanticVersion:
    """A semantic version; a `lenient` one may begin with `v`, lack parts and have leading zeros."""
    if lenient:
        text = text.strip().removeprefix("v")
        core, mark, rest = re.fullmatch(r"([^-+]*)([-+]?)(.*)", text, re.S).groups()  # type: ignore[union-attr]
        parts = [part.lstrip("0") or "0" for part in core.split(".")] if core else []
        text = ".".join([*parts, *["0"] * (3 - len(parts))]) + mark + rest
    return SemanticVersion(text)


def timestamp(value: Any) -> datetime:
    """A moment of RFC 3339, or in seconds since 1970. Raises CelError."""
    if isinstance(value, datetime):
        return value
    try:
        if isinstance(value, int):
            return datetime.fromtimestamp(value, UTC)
        found = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", value))
    except (ValueError, OverflowError, TypeError):
        raise CelError(f"{value!r} is no timestamp") from None
    if found.tzinfo is None:
        raise CelError(f"{value!r} is no timestamp: it has no zone")
    return found


def duration(value: Any) -> timedelta:
    """A span as Go writes it, such as `1h30m`, or in seconds. Raises CelError."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int):
        return timedelta(seconds=value)
    text = str(value)
    body = text[1:] if text[:1] in ("-", "+") else text
    parts = _SPAN.findall(body)
    if body != "0" and (not parts or "".join(number + unit for number, unit in parts) != body):
        raise CelError(f"{text!r} is no duration such as 1h30m")
    seconds = sum(float(number) * _SPAN_SECONDS[unit] for number, unit in parts)
    return timedelta(seconds=-seconds if text.startswith("-") else seconds)


def _part(of_moment: Callable[[datetime], int], of_span: Callable[[timedelta], int] | None = None) -> Any:
    def get(of: Any, zone: str = "") -> int:
        if isinstance(of, timedelta) and of_span is not None:
            return of_span(of)
        if zone not in ("", "UTC"):
            raise CelError(f"the zone {zone!r} is not supported here")
        return of_moment(of.astimezone(UTC))

    return get


def readable(parse: Callable[..., Any]) -> Callable[..., bool]:
    """Whether a text can be read."""

    def can(*args: Any) -> bool:
        try:
            parse(*args)
        except (CelError, TypeError):
            return False
        return isinstance(args[0], str)

    return can


VALUE_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "quantity": quantity,
    "isQuantity": readable(quantity),
    "sign": _sign,
    "url": url,
    "isURL": readable(url),
    "ip": ip,
    "isIP": readable(ip),
    "cidr": cidr,
    "isCIDR": readable(cidr),
    "semver": version,
    "isSemver": readable(version),
    "timestamp": timestamp,
    "duration": duration,
}
VALUE_METHODS: Final[dict[str, Callable[..., Any]]] = {
    "isInteger": _is_integer,
    "asInteger": _as_integer,
    "asApproximateFloat": float,
    "add": lambda of, other: of + _quantity_or_int(other),
    "sub": lambda of, other: of + -_quantity_or_int(other),
    "isGreaterThan": lambda one, other: one > other,
    "isLessThan": lambda one, other: one < other,
    "compareTo": lambda one, other: (one > other) - (one < other),
    "getScheme": lambda of: of.scheme,
    "getHost": _host,
    "getHostname": _hostname,
    "getPort": _port,
    "getEscapedPath": lambda of: quote(of.path, safe="/%:@!$&'()*+,;=~"),
    "getQuery": lambda of: parse_qs(of.query, keep_blank_values=True),
    "family": lambda of: of.version,
    "isUnspecified": lambda of: of.is_unspecified,
    "isLoopback": lambda of: of.is_loopback,
    "isLinkLocalMulticast": lambda of: (
        of.is_multicast
        and (of in ipaddress.ip_network("224.0.0.0/24") if of.version == 4 else of.packed[1] & 0x0F == 2)
    ),
    "isLinkLocalUnicast": lambda of: of.is_link_local,
    "isGlobalUnicast": lambda of: (
        not (
            of.is_unspecified
            or of.is_loopback
            or of.is_multicast
            or of.is_link_local
            or str(of) == "255.255.255.255"
        )
    ),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "ip": lambda of: of.ip,
    "masked": lambda of: ipaddress.ip_interface(str(of.network)),
    "prefixLength": lambda of: of.network.prefixlen,
    "major": lambda of: of.numbers[0],
    "minor": lambda of: of.numbers[1],
    "patch": lambda of: of.numbers[2],
    "getFullYear": _part(lambda moment: moment.year),
    "getMonth": _part(lambda moment: moment.month - 1),
    "getDate": _part(lambda moment: moment.day),
    "getDayOfMonth": _part(lambda moment: moment.day - 1),
    "getDayOfWeek": _part(lambda moment: moment.isoweekday() % 7),
    "getDayOfYear": _part(lambda moment: moment.timetuple().tm_yday - 1),
    "getHours": _part(lambda moment: moment.hour, lambda span: int(span.total_seconds() / 3600)),
    "getMinutes": _part(lambda moment: moment.minute, lambda span: int(span.total_seconds() / 60)),
    "getSeconds": _part(lambda moment: moment.second, lambda span: int(span.total_seconds())),
    "getMilliseconds": _part(
        lambda moment: moment.microsecond // 1000, lambda span: int(span.total_seconds() * 1000)
    ),
}
