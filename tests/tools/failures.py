"""What pip and Go print when they fail, as one line that says what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

NO_SPACE = re.compile(r"No space left on device|Errno 28\b|Disk quota exceeded|no space left", re.I)
PROXY = re.compile(r"ProxyError|Cannot connect to proxy|proxyconnect|Tunnel connection failed", re.I)
SILENT = re.compile(
    r"Connection refused|Connection reset|timed out|timeout|Name or service not known|no such host|"
    r"name resolution|Network is unreachable|NewConnectionError|nodename nor servname",
    re.I,
)
CERTIFICATE = re.compile(r"CERTIFICATE_VERIFY_FAILED|certificate signed by unknown authority|x509: ", re.I)
ABSENT = re.compile(r"No matching distribution found")
PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy")


def explain(lines: Sequence[str], environ: Mapping[str, str]) -> str:
    """The cause, and what helps: the last line of the output where nothing is known of it."""
    text = "\n".join(lines)
    if NO_SPACE.search(text):
        return "no space is left on the disk; free some and try again"
    if PROXY.search(text):
        return f"the proxy does not answer ({_proxy(environ)}); correct the variable or unset it"
    if CERTIFICATE.search(text):
        return "the package registry's certificate is not trusted; set SSL_CERT_FILE to your CA certificates"
    if SILENT.search(text):
        return f"the package registry does not answer ({_proxy(environ)}); check network and proxy"
    if ABSENT.search(text):
        # Without retries, pip does not say that the registry did not answer.
        return f"{_last_word(lines)}: the package registry lacks it or does not answer ({_proxy(environ)})"
    return _last_word(lines)


def without_password(address: str) -> str:
    """An address that may be shown: `http://user:***@proxy:3128`."""
    scheme, mark, rest = address.partition("://") if "://" in address else ("", "", address)
    user, _, host = rest.rpartition("@")
    name, colon, _ = user.partition(":")
    return f"{scheme}{mark}{name}:***@{host}" if colon else address


def _proxy(environ: Mapping[str, str]) -> str:
    name = next((name for name in PROXIES if environ.get(name)), None)
    return f"{name}={without_password(environ[name])}" if name else "HTTPS_PROXY is not set"


def _last_word(lines: Sequence[str]) -> str:
    errors = [line for line in lines if re.match(r"\s*(ERROR|error)\b", line)]
    chosen = (errors or list(lines) or ["it printed nothing"])[-1]
    return re.sub(r"^\s*(ERROR|error):\s*", "", chosen).strip()
