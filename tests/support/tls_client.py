"""HTTPS to a webhook server on loopback, as an API server would, and with bare sockets."""

from __future__ import annotations

import http.client
import socket
import ssl


class TlsClient:
    """A server's port, and the PEM of the CA to trust."""

    def __init__(self, port: int, authority: bytes) -> None:
        self.port = port
        self.authority = authority

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.authority.decode())

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=self.context())

    def post(self, body: bytes, path: str = "/validate", **headers: str) -> tuple[int, bytes]:
        connection = self.connect()
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def get(self, path: str) -> tuple[int, str]:
        connection = self.connect()
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def raw(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        return self.context().wrap_socket(plain, server_hostname="localhost")
