"""An S3 server and a web server on this machine, whose files, headers and faults tests choose.

Faults of the S3 server are those of a proxy before it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import md5
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import pytest

BUCKET = "edges-of-tests"
TO = f"s3://{BUCKET}/night"
"""Where results are uploaded."""
PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@dataclass
class Site:
    """What a web server serves by path, and how."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    tags: bool = True  # ETag headers
    ranges: bool = True
    if_range: bool = True  # whether the header is heeded
    status: int | None = None  # of all answers, instead of files
    cut_after: int | None = None  # bytes of an answer that are sent before the connection breaks
    silent: Event | None = None  # what is waited for after so many bytes:
    silent_after: int = 0
    once: dict[str, bytes] = field(default_factory=dict)
    """What stands at a path after its file was read once."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Requests for content: path with query, and range."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """Say nothing of clients that go away; stderr is that of the command."""
        assert isinstance(sys.exception(), ConnectionError), sys.exception()


class _Handler(BaseHTTPRequestHandler):
    site: Site

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_HEAD(self) -> None:
        self._answer(with_content=False)

    def do_GET(self) -> None:
        self.site.asked.append((self.path, self.headers.get("Range", "")))
        self._answer(with_content=True)

    def _answer(self, with_content: bool) -> None:
        site, content = self.site, self.site.files.get(self.path.partition("?")[0])
        if site.status is not None or content is None:
            self.send_error(site.status or 404)
            return
        tag = f'"{md5(content).hexdigest()}"'
        found = re.match(r"bytes=(\d+)-$", self.headers.get("Range", ""))
        is_same = not site.if_range or self.headers.get("If-Range", tag) == tag
        is_part = site.ranges and found and is_same
        total = len(content)
        content = content[int(found[1]) :] if found and is_part else content
        self.send_response(206 if is_part else 200)
        self.send_header("Content-Length", str(len(content)))
        if is_part:
            first = total - len(content)
            self.send_header("Content-Range", f"bytes {first}-{total - 1}/{total}")
        if site.tags:
            self.send_header("ETag", tag)
        self.end_headers()
        if with_content:
            site.files |= {name: site.once.pop(name) for name in [self.path] if name in site.once}
            with suppress(ConnectionError):
                if site.silent is not None:
                    self.wfile.write(content[: site.silent_after])
                    site.silent.wait()
                    content = content[site.silent_after :]
                self.wfile.write(content[: site.cut_after])
            self.close_connection = True


@contextmanager
def web_server() -> Iterator[Site]:
    """A web server, which ends with the context."""
    handler = type("Handler", (_Handler,), {})
    with _Server(("127.0.0.1", 0), handler) as server:
        handler.site = Site(f"http://127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield handler.site  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Site]:
    pytest.importorskip("aiohttp", reason="reading https:// needs aiohttp")
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("OOC_GRAPH_CACHE", str(tmp_path / "cache"))
    with web_server() as site:
        yield site


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    """Address of an S3 server."""
    pytest.importorskip("s3fs", reason="reading s3:// needs s3fs")
    server = pytest.importorskip("moto.server", reason="an S3 server for tests is in moto[server]")
    threaded = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    threaded.start()
    host, port = threaded.get_host_and_port()
    yield f"http://{host}:{port}"
    threaded.stop()


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Any]:
    """File system of an S3 server with an empty bucket, `BUCKET`."""
    import fsspec

    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-tests")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-tests")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("OOC_GRAPH_CACHE", str(tmp_path / "cache"))
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    files = fsspec.filesystem("s3", skip_instance_cache=True)
    files.mkdir(f"s3://{BUCKET}")
    yield files
    files.rm(f"s3://{BUCKET}", recursive=True)


CUT = 0
"""Instead of a status: the connection breaks."""


class Proxy:
    """Passes requests to an S3 server, or answers with the status that ``fault`` gives."""

    def __init__(self, server: str) -> None:
        self.server = server.removeprefix("http://")
        self.url = ""
        self.fault: Callable[[str, str], int | None] = lambda method, path: None
        self.asked: list[tuple[str, str]] = []
        """Method and path of each request."""

    def sent(self) -> list[str]:
        """Paths of objects that were written since the last call, in the bucket."""
        found = [path for method, path in self.asked if method == "PUT"]
        self.asked.clear()
        return sorted(path.removeprefix(f"/{BUCKET}/") for path in found)


class _Handing(BaseHTTPRequestHandler):
    proxy: Proxy
    protocol_version = "HTTP/1.1"  # clients wait for leave to send what they write

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def _hand_on(self) -> None:
        proxy, path = self.proxy, self.path.partition("?")[0]
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        proxy.asked.append((self.command, path))
        self.close_connection = True
        status = proxy.fault(self.command, path)
        if status == CUT:
            self.connection.close()
            return
        if status is not None:
            self._answer(status, {}, b"")
            return
        connection = HTTPConnection(proxy.server)
        connection.request(self.command, self.path, body, dict(self.headers.items()))
        found = connection.getresponse()
        content = found.read()
        self._answer(found.status, dict(found.getheaders()), content)
        connection.close()

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else len(content)
        self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(content)

    do_HEAD = do_GET = do_PUT = do_POST = do_DELETE = _hand_on


@pytest.fixture
def proxy(s3: Any, s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The S3 server is reached through this; `s3` itself is not."""
    handler = type("Handler", (_Handing,), {"proxy": Proxy(s3_server)})
    with _Server(("127.0.0.1", 0), handler) as server:
        found: Proxy = handler.proxy  # type: ignore[attr-defined]
        found.url = f"http://127.0.0.1:{server.server_port}"
        s3.ls(f"s3://{BUCKET}")  # has its own session from now on
        monkeypatch.setenv("AWS_ENDPOINT_URL", found.url)
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
