"""The live page: a small server for this machine alone, with two addresses and no files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from .. import files
from ..errors import FedhaltError
from .live import LiveRuns
from .page.document import page

HOST = "127.0.0.1"


class Server(ThreadingHTTPServer):
    """Serves `/`, the page, and `/runs?after=VERSION`, what changed since."""

    daemon_threads = True

    def __init__(self, live: LiveRuns, title: str, port: int = 0) -> None:
        document = page(title, {"live": True}, connect="'self'").encode()
        self.answers: dict[str, Callable[[str], tuple[str, bytes]]] = {
            "/": lambda query: ("text/html; charset=utf-8", document),
            "/runs": lambda query: ("application/json", _news(live, query)),
        }
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            raise FedhaltError(f"port {port} cannot be used ({error.strerror}): choose another, or 0 for any") from None

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a reader who left is no error
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers this machine's own pages only: a name that others made point here (DNS rebinding) is refused."""

    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        port = self.server.server_address[1]
        if self.headers.get("Host", "").lower() not in (f"{HOST}:{port}", f"localhost:{port}"):
            return self._send(HTTPStatus.FORBIDDEN, "text/plain", b"this server answers to 127.0.0.1 only\n")
        path, _, query = self.path.partition("?")
        answer = self.server.answers.get(path)
        if answer is None:
            return self._send(HTTPStatus.NOT_FOUND, "text/plain", b"there are / and /runs\n")
        return self._send(HTTPStatus.OK, *answer(query))

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
        }  # fmt: skip
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """One line a second in a terminal would say nothing."""


def _news(live: LiveRuns, query: str) -> bytes:
    return files.to_json(live.since(parse_qs(query).get("after", [""])[0])).encode()
