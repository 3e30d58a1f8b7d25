"""An S3 server and a web server on this machine, whose files, headers and faults tests choose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import pytest

BUCKET = "edges-of-tests"
PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@dataclass
class Site:
    """What a web server serves by path, and how."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    tags: bool = True  # ETag headers
    ranges: bool = True
    status: int | None = None  # of all answers, instead of files
    cut_after: int | None = None  # bytes of an answer that are sent before the connection breaks
    silent: Event | None = None  # what is waited for after so many bytes:
    silent_after: int = 0
    once: dict[str, bytes] = field(default_factory=dict)
    """What stands at a path after its file was read once."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Requests for content: path with query, and range."""


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
        is_part = site.ranges and found and self.headers.get("If-Range", tag) == tag
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
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
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
