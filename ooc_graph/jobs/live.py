"""A page that shows how far a run is, for browsers on this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Template

from ooc_graph.errors import UsageError
from ooc_graph.jobs.status import age_of, status_or_damage
from ooc_graph.jobs.tiers import tier_text
from ooc_graph.report.runs_page import runs_template

HOST = "127.0.0.1"
_NAMES = (HOST, "localhost")
"""What a browser may call this machine: a page from elsewhere may have a name that leads to it."""
EVERY_S = 2
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Refresh": str(EVERY_S),
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def serve_status(folder: Path, port: int, say: Callable[[str], object]) -> None:
    """Serve the page until a signal ends the process; ``say`` gets its URL.

    Whoever can open connections on this machine can read it. UsageError: the port is taken.
    """
    page = partial(_Page, folder, runs_template("live.html.j2"))
    try:
        server = _Server((HOST, port), page)
    except OSError as error:
        raise UsageError(f"port {port}: {error.strerror}; give another one, or 0") from error
    with server:
        say(f"http://{HOST}:{server.server_port}/ shows {folder}; Ctrl-C ends it")
        server.serve_forever()


def page_html(template: Template, folder: Path, now: datetime) -> str:
    """Text of the page about a run."""
    return template.render(
        run=status_or_damage(folder),
        age=lambda time: age_of(time, now),
        tiers=tier_text,
        now=f"{now:%Y-%m-%d %H:%M:%S}",
        every_s=EVERY_S,
    )


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of browsers that go away; of all else, what Python says."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Page(BaseHTTPRequestHandler):
    """Answers a request with the page, made anew."""

    timeout = 30  # of a connection on which nothing is asked

    def __init__(self, folder: Path, template: Template, *request: Any) -> None:
        self._folder, self._template = folder, template
        super().__init__(*request)

    def do_GET(self) -> None:
        """Send the page."""
        if not self._is_asked_by_name():
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, f"Ask for {HOST} or localhost")
        elif self.path != "/":
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            content = page_html(self._template, self._folder, datetime.now(UTC)).encode()
            self.send_response(HTTPStatus.OK)
            for name, value in (_HEADERS | {"Content-Length": str(len(content))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    def _is_asked_by_name(self) -> bool:
        """Whether the one header Host names this machine; the port may be that of a tunnel."""
        hosts = self.headers.get_all("Host") or []
        try:
            return len(hosts) == 1 and urlsplit(f"//{hosts[0]}").hostname in _NAMES
        except ValueError:
            return False

    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""
