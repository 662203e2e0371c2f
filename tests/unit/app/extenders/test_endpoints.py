"""Extenders that cannot be called are refused at the start, with the field that is wrong."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scheduler_core.app.__main__ import main
from scheduler_core.app.extenders.endpoints import DEFAULT_SECONDS, caller_of
from scheduler_core.certificates import issue_serving, make_authority
from scheduler_core.config.schema import Extender, ExtenderTLS
from scheduler_core.errors import ConfigError

URL = "https://extender.example.com/scheduler"

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"url_prefix": ""}, "extenders[3].urlPrefix: '' is not an http or https URL"),
    ({"url_prefix": "ftp://x"}, "extenders[3].urlPrefix: 'ftp://x' is not"),
    ({"url_prefix": "http://"}, "extenders[3].urlPrefix: 'http://' is not"),
    ({"url_prefix": "http://x:99999"}, "extenders[3].urlPrefix: 'http://x:99999' is not"),
    ({"url_prefix": "http://x/a b"}, "extenders[3].urlPrefix"),
    ({"url_prefix": "http://x/\r\nHost: y"}, "extenders[3].urlPrefix"),
    ({"url_prefix": "http://me:secret@x"}, "is a URL without user, query and fragment"),
    ({"url_prefix": "http://x?y"}, "is a URL without user, query and fragment"),
    ({"url_prefix": "http://x", "enable_https": True}, "not an https URL, which enableHTTPS asks for"),
    ({"http_timeout": -1.0}, "extenders[3].httpTimeout: must not be negative"),
    ({"filter_verb": "a b"}, "'a b' cannot be the end of a URL"),
    ({"bind_verb": "a\r\nb"}, "cannot be the end of a URL"),
    (
        {"tls_config": ExtenderTLS(ca_file="/nowhere/ca")},
        "extenders[3].tlsConfig.caFile: cannot read /nowhere/ca",
    ),
    ({"tls_config": ExtenderTLS(ca_data="?")}, "extenders[3].tlsConfig.caData: is not base64"),
    ({"tls_config": ExtenderTLS(ca_data="/////w==")}, "extenders[3].tlsConfig.ca: is not PEM text"),
    ({"tls_config": ExtenderTLS(ca_data="eHl6")}, "certificate-authority is not usable"),
    ({"tls_config": ExtenderTLS(cert_data="eHl6")}, "a client certificate needs its key"),
    (
        {"tls_config": ExtenderTLS(cert_data="eHl6", key_data="eHl6")},
        "client certificate and key are not usable",
    ),
]


@pytest.mark.parametrize(("settings", "problem"), WRONG, ids=[row[1][:60] for row in WRONG])
def test_an_invalid_setting_is_reported_with_its_field(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        caller_of(Extender(**{"url_prefix": URL, **settings}), "extenders[3]")
    assert problem in str(refused.value)
    assert "secret" not in str(refused.value)


def test_certificates_come_from_files_or_from_the_configuration(tmp_path: Path) -> None:
    now = time.time()
    authority = make_authority(now)
    pair = issue_serving(authority, ["client"], now)
    for name, text in (("ca", authority.certificate), ("cert", pair.certificate), ("key", pair.key)):
        (tmp_path / name).write_bytes(text)
    files = ExtenderTLS(
        ca_file=str(tmp_path / "ca"), cert_file=str(tmp_path / "cert"), key_file=str(tmp_path / "key")
    )
    data = ExtenderTLS(
        ca_data=base64.b64encode(authority.certificate).decode(),
        cert_data=base64.b64encode(pair.certificate).decode(),
        key_data=base64.b64encode(pair.key).decode(),
        server_name="other",
    )
    for tls in (files, data):
        caller = caller_of(Extender(url_prefix=URL, tls_config=tls), "extenders[0]")
        assert caller.endpoint.ca == authority.certificate.decode()
    assert caller.endpoint.tls_server_name == "other"
    assert caller.seconds == DEFAULT_SECONDS


def test_validate_says_so_of_every_extender(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "extenders: [{urlPrefix: x}, {urlPrefix: 'http://x'}, {urlPrefix: y}]\n"
    )
    done = CliRunner().invoke(main, ["config", "validate", str(path)])
    assert done.exit_code == 1
    assert [line.count("extenders[") for line in done.output.splitlines()] == [1, 1]
    assert "extenders[0].urlPrefix" in done.output
    assert "extenders[2].urlPrefix" in done.output
