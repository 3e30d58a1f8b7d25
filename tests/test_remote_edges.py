"""Edges at URLs: the same graphs as from files, copies that go on, and what is said of faults."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from signal import SIGTERM
from threading import Event
from time import monotonic, sleep
from traceback import format_exception
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import DiskFullError, InputError, NetworkError, UsageError
from ooc_graph.remote import copies
from ooc_graph.remote.faults import faults_of
from ooc_graph.remote.objects import states_of
from ooc_graph.remote.urls import shown
from tests.command_line import running, script
from tests.job_runs import Command
from tests.remote_stores import BUCKET, Site, s3, s3_server, web  # noqa: F401 (fixtures)

TEXT = b"source,target,weight\n10,20,4\n20,30,1\n10,30,7\n"
SECRET = "Sup3rS3cret"


def identity(graph: og.Graph) -> str:
    return graph.stored.manifest.sha256  # type: ignore[union-attr]


def graph_of(source: Any, folder: Path, **options: Any) -> str:
    return identity(og.build(source, folder, client=False, device="cpu", **options))


def test_graphs_are_those_of_files(s3: Any, tmp_path: Path) -> None:  # noqa: F811
    rng = np.random.default_rng(1)
    np.save(tmp_path / "a.npy", rng.integers(0, 99, (500, 2)))
    (tmp_path / "b.csv").write_bytes(TEXT)
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(TEXT))
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "part-0.csv").write_bytes(TEXT)
    (parts / "part-1.csv").write_bytes(b"source,target,weight\n30,40,2\n")
    (parts / "_SUCCESS").write_bytes(b"")
    data_set = tmp_path / "ldbc"
    data_set.mkdir()
    (data_set / "x.e").write_text("1 2 0.5\n2 3 0.25\n")
    (data_set / "x.v").write_text("1\n2\n3\n4\n")
    (data_set / "x.properties").write_text(
        "graph.x.directed = false\ngraph.x.edge-properties.names = weight\n"
    )
    for name in ("a.npy", "b.csv", "c.csv.gz", "parts", "ldbc"):
        s3.put(str(tmp_path / name), f"s3://{BUCKET}/{name}", recursive=True)
    for name in ("a.npy", "b.csv", "c.csv.gz", "parts", "ldbc", "ldbc/x.e"):
        local, far = f"local-{Path(name).name}.zarr", f"far-{Path(name).name}.zarr"
        expected = graph_of(tmp_path / name, tmp_path / local)
        assert graph_of(f"s3://{BUCKET}/{name}", tmp_path / far) == expected, name
    some = [f"s3://{BUCKET}/parts/part-1.csv", str(parts / "part-0.csv")]
    assert [Path(path).name for path in og.open_source(some).paths] == ["part-1.csv", "part-0.csv"]


def test_files_of_a_data_set_that_are_gone_are_not_read(s3: Any) -> None:  # noqa: F811
    s3.pipe(f"s3://{BUCKET}/x.e", b"1 2\n")
    s3.pipe(f"s3://{BUCKET}/x.properties", b"graph.x.directed = true\n")
    assert og.open_source(f"s3://{BUCKET}/x.e").directed
    # Beside other files the format has to be said.
    s3.pipe(f"s3://{BUCKET}/README", b"edges")
    assert og.open_source(f"s3://{BUCKET}", format="graphalytics").directed
    s3.rm(f"s3://{BUCKET}/x.properties")
    assert not og.open_source(f"s3://{BUCKET}/x.e").directed


def test_a_copy_is_fetched_once_and_again_if_the_file_changes(web: Site) -> None:  # noqa: F811
    web.files["/e.csv"] = TEXT
    url = f"{web.url}/e.csv"
    first = og.open_source(url)
    og.open_source(url)
    assert len(web.asked) == 1
    web.files["/e.csv"] = TEXT.replace(b"7", b"8")
    path = Path(og.open_source(url).paths[0])
    assert path.read_bytes() == TEXT.replace(b"7", b"8")
    assert len(web.asked) == 2
    # Who reads the old copy finds no part of the new one.
    with pytest.raises(InputError, match="no such file"):
        list(first.read(first.units(9)[0], 9))
    assert len(list(copies.cache_folder().rglob("e.csv"))) == 1
    # A copy that somebody else has changed is none.
    path.write_bytes(TEXT)
    assert Path(og.open_source(url).paths[0]) == path
    assert path.read_bytes() == web.files["/e.csv"]


def test_a_file_without_a_tag_is_fetched_each_time(web: Site) -> None:  # noqa: F811
    web.files["/e.csv"], web.tags = TEXT, False
    path = Path(og.open_source(f"{web.url}/e.csv").paths[0])
    before = path.stat()
    og.open_source(f"{web.url}/e.csv")
    assert len(web.asked) == 2
    # As a build that was stopped wants it, equal content is the same file.
    assert path.stat() == before
    web.files["/e.csv"] = TEXT.replace(b"7", b"8")
    og.open_source(f"{web.url}/e.csv")
    assert path.read_bytes() == web.files["/e.csv"]


def test_queries_say_which_file_is_meant(web: Site) -> None:  # noqa: F811
    web.files["/e.csv"] = TEXT
    one, other = (og.open_source(f"{web.url}/e.csv?id={n}").paths[0] for n in (1, 2))
    assert one != other
    assert [path for path, _ in web.asked] == ["/e.csv?id=1", "/e.csv?id=2"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_response_that_breaks_off_is_gone_on_with(web: Site, ranges: bool) -> None:  # noqa: F811
    content = TEXT + b"1,2,3\n" * 10_000
    web.files["/e.csv"], web.ranges, web.cut_after = content, ranges, 5000
    with pytest.raises(NetworkError, match=r"/e\.csv: the server cannot be read now .*; try again"):
        og.open_source(f"{web.url}/e.csv")
    web.cut_after = None
    path = og.open_source(f"{web.url}/e.csv").paths[0]
    assert Path(path).read_bytes() == content
    have = int(web.asked[1][1].removeprefix("bytes=").removesuffix("-"))
    assert 0 < have <= 5000
    assert len(web.asked) == 2


def test_each_response_that_breaks_off_adds_to_the_file(web: Site) -> None:  # noqa: F811
    content = b"".join(b"%d,%d,1\n" % (k, k + 1) for k in range(100_000))
    web.files["/e.csv"], web.cut_after = content, 400_000
    attempts = 0
    while True:
        attempts += 1
        try:
            path = og.open_source(f"{web.url}/e.csv").paths[0]
            break
        except NetworkError:
            assert attempts < 20
    assert Path(path).read_bytes() == content
    starts = [int(found.removeprefix("bytes=").removesuffix("-")) for _, found in web.asked[1:]]
    assert len(starts) >= len(content) // 400_000
    assert starts == sorted(set(starts))


def test_a_rest_of_another_file_is_not_taken(web: Site, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Of a server that does not heed If-Range, while the file changes and changes back."""
    first, other = TEXT + b"1,2,3\n" * 10_000, TEXT + b"1,2,4\n" * 10_000
    web.files["/e.csv"], web.cut_after, web.if_range = first, 5000, False
    with pytest.raises(NetworkError):
        og.open_source(f"{web.url}/e.csv")
    right = copies._by_stream

    def changing(*given: Any) -> None:
        web.files["/e.csv"] = other
        try:
            right(*given)
        finally:
            web.files["/e.csv"] = first

    monkeypatch.setattr(copies, "_by_stream", changing)
    with pytest.raises(NetworkError, match=r"e\.csv: the server sent other bytes than the rest"):
        og.open_source(f"{web.url}/e.csv")
    monkeypatch.setattr(copies, "_by_stream", right)
    web.cut_after = None
    assert Path(og.open_source(f"{web.url}/e.csv").paths[0]).read_bytes() == first


def test_a_file_that_changed_since_is_not_gone_on_with(web: Site) -> None:  # noqa: F811
    web.files["/e.csv"], web.cut_after = TEXT + b"1,2,3\n" * 10_000, 5000
    with pytest.raises(NetworkError):
        og.open_source(f"{web.url}/e.csv")
    web.files["/e.csv"], web.cut_after = TEXT + b"1,2,4\n" * 10_000, None
    path = og.open_source(f"{web.url}/e.csv").paths[0]
    assert Path(path).read_bytes() == web.files["/e.csv"]


class Pieces:
    """A file system that notes which bytes are read, and does something before each read."""

    def __init__(self, files: Any, before: Any) -> None:
        self.files, self.before, self.starts = files, before, []  # type: ignore[var-annotated]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.files, name)

    def cat_ranges(self, urls: Any, starts: list[int], ends: list[int], **options: Any) -> Any:
        self.before(starts[0])
        self.starts += starts
        return self.files.cat_ranges(urls, starts, ends, **options)


def small_pieces(monkeypatch: pytest.MonkeyPatch, before: Any) -> list[Pieces]:
    """Have files be read in pieces of 1,000 bytes, 8 at once."""
    made: list[Pieces] = []
    original = copies.file_system
    monkeypatch.setattr(copies, "PIECE_BYTES", 1000)

    def file_system(url: str) -> Any:
        made.append(Pieces(original(url), before))
        return made[-1]

    monkeypatch.setattr(copies, "file_system", file_system)
    return made


KILLED = """
import os, sys
from ooc_graph.remote import copies
import ooc_graph as og
copies.PIECE_BYTES, synced, fsync = 1000, [], os.fsync
def counted(descriptor):
    fsync(descriptor)
    synced.append(descriptor)
    if os.path.realpath(f"/proc/self/fd/{descriptor}").endswith(".part") and len(synced) > 3:
        os._exit(9)
os.fsync = counted
og.open_source(sys.argv[1])
"""


def test_a_killed_fetch_is_gone_on_with(
    s3: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = TEXT + b"1,2,3\n" * 10_000
    url = f"s3://{BUCKET}/e.csv"
    s3.pipe(url, content)
    assert script("-c", KILLED, url).code == 9
    [path] = copies.copy_paths(states_of([url]))  # type: ignore[arg-type]
    partial = path.with_name(".e.csv.part").stat().st_size
    assert not path.exists()
    assert 8000 < partial < len(content)
    made = small_pieces(monkeypatch, lambda start: None)
    og.open_source(url)
    assert path.read_bytes() == content
    # What was read last may not have come to the disk.
    assert min(made[0].starts) == partial - 8000
    assert sorted(one.name for one in path.parent.iterdir()) == [".e.csv.json", "e.csv"]


def test_a_file_that_changes_while_it_is_read(
    s3: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = f"s3://{BUCKET}/e.csv"
    s3.pipe(url, TEXT + b"1,2,3\n" * 10_000)
    changed = TEXT + b"1,2,4\n" * 10_000
    made = small_pieces(
        monkeypatch, lambda start: s3.pipe(url, changed) if start == 16000 else None
    )
    with pytest.raises(NetworkError, match=r"e\.csv: was changed while it was read; try again"):
        og.open_source(url)
    assert Path(og.open_source(url).paths[0]).read_bytes() == changed
    assert made[1].starts[0] == 0


def test_a_file_that_is_cut_while_it_is_read(
    s3: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = f"s3://{BUCKET}/e.csv"
    s3.pipe(url, TEXT + b"1,2,3\n" * 10_000)
    small_pieces(monkeypatch, lambda start: s3.pipe(url, TEXT * 450) if start == 16000 else None)
    with pytest.raises(NetworkError, match=r"e\.csv: (ends early, after|.*status 416)"):
        og.open_source(url)
    assert Path(og.open_source(url).paths[0]).read_bytes() == TEXT * 450


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        (401, InputError, "no permission to read it (credentials come from the environment, "),
        (403, InputError, "no permission to read it (credentials come from the environment, "),
        (404, InputError, "no such file, folder or bucket"),
        (429, NetworkError, "the server cannot be read now (status 429); try again"),
        (503, NetworkError, "the server cannot be read now (status 503); try again"),
    ],
)
def test_statuses(web: Site, status: int, kind: type[Exception], said: str) -> None:  # noqa: F811
    web.status = status
    with pytest.raises(kind) as caught:
        og.open_source(f"{web.url}/e.csv?sig={SECRET}")
    assert str(caught.value).startswith(f"{web.url}/e.csv: {said}")
    assert "\n" not in str(caught.value)


def test_faults_of_s3(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    s3.pipe(f"s3://{BUCKET}/e.csv", TEXT)
    for url in (f"s3://{BUCKET}/none.csv", "s3://no-such-bucket/e.csv"):
        with pytest.raises(InputError, match=f"^{url}: no such file, folder or bucket$"):
            og.open_source(url)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(NetworkError) as caught:
        og.open_source(f"s3://{BUCKET}/e.csv")
    assert caught.value.exit_code == 75


def test_no_credentials(s3: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # noqa: F811
    s3.pipe(f"s3://{BUCKET}/e.csv", TEXT)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(InputError, match="no permission to read it"):
        og.open_source(f"s3://{BUCKET}/e.csv")


def test_what_cannot_be_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"^ftp://h/e: ftp:// is not read; there are s3://, "):
        og.open_source("ftp://h/e")
    with pytest.raises(UsageError, match=r"^S3://b/e: S3:// is not read; there are s3://, "):
        og.open_source("S3://b/e")
    with pytest.raises(UsageError, match="names no file"):
        og.open_source("s3://")
    for url in ("http://127.0.0.1:port/e.csv", "s3://no bucket!/e.csv"):
        with pytest.raises(InputError, match=r": cannot be read \(.*look at the URL, and at what "):
            og.open_source(url)
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(UsageError, match=r"gs:// needs gcsfs; .*pip install 'ooc-graph\[remote\]'"):
        og.open_source("gs://bucket/e.csv")


def test_a_disk_that_is_too_small(web: Site, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    web.files["/e.csv"] = TEXT
    usage = copies.shutil.disk_usage("/")
    monkeypatch.setattr(copies.shutil, "disk_usage", lambda path: usage._replace(free=9))
    with pytest.raises(DiskFullError, match=r"45 bytes of .*/e\.csv are to be fetched, 9 are free"):
        og.open_source(f"{web.url}/e.csv")


def test_secrets_are_not_shown() -> None:
    for url, expected in {
        "https://user:pw@host:1/a/b.csv?X-Amz-Signature=1&a=/#f": "https://host:1/a/b.csv",
        "https://user:p@w@host/a": "https://host/a",
        "https://host/a@b.csv": "https://host/a@b.csv",
        "https://host?sig=a/b@c": "https://host",
        "s3://bucket/a.csv": "s3://bucket/a.csv",
    }.items():
        assert shown(url) == expected


def test_secrets_are_written_nowhere(web: Site, tmp_path: Path, ooc: Command) -> None:  # noqa: F811
    web.files["/e.csv"] = TEXT
    address = web.url.replace("://", f"://user:{SECRET}@")
    done = ooc("build", f"{address}/e.csv?sig={SECRET}", tmp_path / "g.zarr")
    assert done.code == 0, done
    web.files["/e.csv"] = b"no edges\n"
    failed = ooc("build", f"{address}/e.csv?sig={SECRET}", tmp_path / "h.zarr")
    assert failed.code == 2
    web.status = 500
    down = ooc("build", f"{address}/e.csv?sig={SECRET}", tmp_path / "h.zarr")
    assert down.code == 75
    for said in (done, failed, down):
        assert SECRET not in said.out + said.err
    for path in tmp_path.rglob("*"):
        assert SECRET not in str(path)
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


class GoogleError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"https://host/?sig={SECRET}")
        self.code = code


class AzureError(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__(f"https://host/?sig={SECRET}")
        self.status_code = status_code


class BotoError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"https://host/?sig={SECRET}")
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


@pytest.mark.parametrize("kind", [GoogleError, AzureError, BotoError])
def test_statuses_of_other_stores(kind: Any) -> None:
    expected = {401: "no permission", 403: "no permission", 404: "no such file", 500: "try again"}
    for status, said in expected.items():
        with pytest.raises((InputError, NetworkError), match=said) as caught, faults_of("gs://b/e"):
            raise OSError(f"of {SECRET}") from kind(status)
        assert SECRET not in "".join(format_exception(caught.value))


def test_other_words_of_stores() -> None:
    for error, said in {
        OSError(f"Forbidden: https://host/{SECRET}"): "no permission",
        OSError(f"{SECRET}"): "the server cannot be read now (OSError); try again",
        TimeoutError(): "the server cannot be read now (TimeoutError); try again",
        ValueError(f"{SECRET}"): "cannot be read (ValueError) (look at the URL, and ",
        KeyError(f"{SECRET}"): "cannot be read (KeyError) (look at the URL, and ",
    }.items():
        with pytest.raises((InputError, NetworkError)) as caught, faults_of("gs://b/e?x=1"):
            raise error
        assert str(caught.value).startswith(f"gs://b/e: {said}")
        assert SECRET not in "".join(format_exception(caught.value))
    full = OSError(28, "No space left on device")
    with pytest.raises(OSError, match="No space left") as caught, faults_of("gs://b/e"):
        raise full
    assert caught.value is full


def test_nothing_is_written_to_urls(tmp_path: Path, ooc: Command) -> None:
    (tmp_path / "e.csv").write_bytes(TEXT)
    said = ooc("build", tmp_path / "e.csv", "s3://bucket/g.zarr")
    assert said.code == 2
    assert "s3://bucket/g.zarr: stores are written to paths, not to URLs" in said.err
    said = ooc("run", tmp_path / "job.toml", "--out", "s3://bucket/run")
    assert said.code == 2
    assert "s3://bucket/run is a URL, and a path is needed here" in said.err


def test_a_fetch_that_is_stopped(web: Site, tmp_path: Path) -> None:  # noqa: F811
    """By SIGTERM, while the server is silent."""
    content = TEXT + b"1,2,3\n" * 100_000
    web.files["/e.csv"], web.silent_after, web.silent = content, 200_000, Event()
    url, out = f"{web.url}/e.csv", tmp_path / "g.zarr"
    try:
        with running(["-m", "ooc_graph", "build", url, out]) as process:
            deadline = monotonic() + 120
            [path] = copies.copy_paths(states_of([url]))  # type: ignore[arg-type]
            partial = copies.beside(path, "part")
            while not web.asked:
                assert monotonic() < deadline
                sleep(0.05)
            process.send_signal(SIGTERM)
            assert process.wait(120) == 143
    finally:
        web.silent.set()
    assert partial.exists()
    web.silent = None
    assert Path(og.open_source(url).paths[0]).read_bytes() == content
    assert not partial.exists()


def test_a_server_that_sends_all_instead_of_the_rest(web: Site) -> None:  # noqa: F811
    """Its answers are cut, too: no byte of the second stands behind those of the first."""
    content = b"".join(b"%d,%d,1\n" % (k, k + 1) for k in range(1000, 3000))
    web.files["/e.csv"] = content
    for ranges, cut in ((True, 5000), (False, 3000), (True, 4000)):
        web.ranges, web.cut_after = ranges, cut
        with pytest.raises(NetworkError):
            og.open_source(f"{web.url}/e.csv")
    web.ranges, web.cut_after = True, None
    assert Path(og.open_source(f"{web.url}/e.csv").paths[0]).read_bytes() == content
