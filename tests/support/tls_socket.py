"""TLS sockets that close themselves when their peer is gone before the handshake."""

from __future__ import annotations

import socket
import ssl


class TlsSocket(ssl.SSLSocket):
    """What `ssl` wraps a connection in, once `install` was called.

    `SSLContext.wrap_socket` takes the file descriptor from the socket that it is given, and then asks for
    the peer's name. Where a reset came in between it raises, and nobody holds the descriptor any more: it
    is closed by the garbage collector, with a ResourceWarning. A server that is killed in the middle of a
    burst does this to one connection in some thousand.
    """

    def getpeername(self) -> object:
        """The address of the peer. Raises ConnectionResetError, and closes, where it is gone."""
        try:
            return super().getpeername()
        except OSError as error:
            if self.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                raise  # one that listens never had a peer, and `ssl` knows it
            self.close()
            raise ConnectionResetError("the peer reset the connection before the handshake") from error


def install() -> None:
    """Make every TLS connection of this process from now on such a socket."""
    ssl.SSLContext.sslsocket_class = TlsSocket
