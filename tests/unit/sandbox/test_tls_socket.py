"""A connection reset before its TLS handshake leaves no open socket."""

from __future__ import annotations

import gc
import select
import socket
import ssl
import struct
import warnings

import pytest


def reset_by_its_peer() -> socket.socket:
    """A connection whose reset has arrived."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
    events = select.poll()
    events.register(ours, 0)
    assert events.poll(10_000), "the reset did not arrive"
    return ours


@pytest.mark.parametrize("side", ["client", "server"])
def test_a_connection_reset_before_its_handshake_is_closed(side: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if side == "server" else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(ConnectionResetError):
            context.wrap_socket(reset_by_its_peer(), server_side=side == "server")
        gc.collect()
    assert [str(warning.message) for warning in caught if warning.category is ResourceWarning] == []


def test_a_socket_that_listens_never_had_a_peer() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        context.wrap_socket(listener, server_side=True) as wrapped,
    ):
        assert wrapped.getsockname()[1]
