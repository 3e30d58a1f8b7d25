"""Stores and files that are uploaded: what readers find before, meanwhile and afterwards."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import shutil
import signal
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import (
    CorruptStoreError,
    InputError,
    NetworkError,
    NotAStoreError,
    OocGraphError,
    OutputBusyError,
    OutputExistsError,
    StoreReplacedError,
)
from ooc_graph.layout.manifest import Manifest
from ooc_graph.remote import stores, uploads
from ooc_graph.types import NoProgress
from tests.command_line import listing
from tests.dying import ended
from tests.own_process import in_own_process
from tests.remote_stores import (  # noqa: F401 (fixtures)
    BUCKET,
    CUT,
    TO,
    Proxy,
    proxy,
    s3,
    s3_server,
)

URL = f"{TO}/g.zarr"


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two graphs with some files in common; the first, of two shards, has more."""
    folder = tmp_path_factory.mktemp("graphs")
    ids = np.arange(3000)
    for number, shards in enumerate((2, 1)):
        edges = ids, (ids + 1 + number) % 3000
        options = {"shards": shards, "directed": False, "client": False, "device": "cpu"}
        og.build(edges, folder / f"{number}.zarr", **options)
    return sorted(folder.glob("*.zarr"))


def upload(*paths: Path, name: str = "g.zarr") -> None:
    uploads.upload(TO, {name if len(paths) == 1 else one.name: one for one in paths}, NoProgress())


def below(s3: Any, url: str = TO) -> dict[str, bytes]:  # noqa: F811
    """Objects by path below a URL."""
    found = s3.find(url, refresh=True)
    start = url.removeprefix("s3://") + "/"
    return {name.removeprefix(start): s3.cat_file(name) for name in found}


def content(store: Path) -> dict[str, bytes]:
    """Files by path in a store."""
    return {
        path.relative_to(store).as_posix(): path.read_bytes()
        for path in store.rglob("*")
        if path.is_file()
    }


def test_a_graph_and_an_answer(s3: Any, graphs: list[Path], tmp_path: Path) -> None:  # noqa: F811
    answer = og.bfs(graphs[0], 7, out=tmp_path / "7.zarr", client=False, device="cpu")
    (tmp_path / "7.csv").write_text("vertex,parent\n")
    (tmp_path / "empty.csv").touch()
    upload(graphs[0], tmp_path / "7.zarr", tmp_path / "7.csv", tmp_path / "empty.csv")
    assert below(s3, f"{TO}/0.zarr") == content(graphs[0])
    assert below(s3)["7.csv"] == b"vertex,parent\n"
    assert below(s3)["empty.csv"] == b""
    assert listing(Path(og.open(f"{TO}/0.zarr").path)) == listing(graphs[0])
    found = og.Result.open(stores.local_path(f"{TO}/7.zarr"))
    np.testing.assert_array_equal(found.parent, answer.parent)


def test_what_is_there_is_not_sent_again(
    s3: Any,  # noqa: F811
    proxy: Proxy,  # noqa: F811
    graphs: list[Path],
) -> None:
    upload(graphs[0])
    others = {f"{TO}/g.zarr-other/x", f"{TO}/g.zar", f"{TO}/x"}
    for name in others:
        s3.pipe(name, b"of others")
    # As consoles make folders.
    s3.pipe_file(f"{URL}/", b"")
    proxy.asked.clear()
    upload(graphs[0])
    assert proxy.sent() == []
    upload(graphs[1])
    files = [Manifest.load(graph).files for graph in graphs]
    changed = {name for name in files[1] if files[1][name] != files[0].get(name)}
    assert changed < files[1].keys()
    assert files[0].keys() - files[1].keys()
    manifest = "night/g.zarr/manifest.json"
    assert proxy.sent() == sorted([*(f"night/g.zarr/{name}" for name in changed), *2 * [manifest]])
    found = below(s3, URL)
    found.pop("", None)
    assert found == content(graphs[1])
    assert all(s3.cat_file(name) == b"of others" for name in others)
    # What was lost or changed there comes again; so does a file.
    s3.rm_file(f"{URL}/zarr.json")
    s3.pipe(f"{URL}/tuples/zarr.json", b"?" * files[1]["tuples/zarr.json"].size)
    upload(graphs[1])
    assert proxy.sent() == ["night/g.zarr/tuples/zarr.json", "night/g.zarr/zarr.json"]


def test_files_are_replaced(s3: Any, proxy: Proxy, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "a.csv"
    for text in ("first", "again", "longer"):
        path.write_text(text)
        upload(path, name="bfs/a.csv")
        assert below(s3) == {"bfs/a.csv": text.encode()}
        upload(path, name="bfs/a.csv")
        assert proxy.sent() == ["night/bfs/a.csv"]


def test_files_that_are_sent_in_parts(
    s3: Any,  # noqa: F811
    proxy: Proxy,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their MD5 is not stated: the size is compared, and they are sent again."""
    monkeypatch.setattr("s3fs.core.calculate_chunksize", lambda size, chunksize=None: 5 << 20)
    path = tmp_path / "a.csv"
    path.write_bytes(b"0123456789abcdef" * (11 << 16))
    for _ in range(2):
        upload(path, name="a.csv")
        assert s3.info(f"{TO}/a.csv", refresh=True)["ETag"].endswith('-3"')
        assert below(s3) == {"a.csv": path.read_bytes()}
        assert proxy.sent() == 3 * ["night/a.csv"]


def test_something_else_is_not_replaced(s3: Any, graphs: list[Path]) -> None:  # noqa: F811
    said = f"^{URL}: holds something else than a store of this package"
    for name, text in {"data/c/0": b"x", "manifest.json": b'{"name": "app"}'}.items():
        s3.pipe(f"{URL}/{name}", text)
        with pytest.raises(OutputExistsError, match=said) as caught:
            upload(graphs[0])
        assert caught.value.exit_code == 2
        assert below(s3, URL) == {name: text}
        s3.rm_file(f"{URL}/{name}")


def test_a_damaged_store_is_not_uploaded(
    s3: Any,  # noqa: F811
    graphs: list[Path],
    tmp_path: Path,
) -> None:
    upload(graphs[0])
    damaged = tmp_path / "g.zarr"
    shutil.copytree(graphs[1], damaged)
    (damaged / "tuples" / "c" / "0").write_bytes(b"?")
    with pytest.raises(CorruptStoreError, match="tuples/c/0: differs from what the manifest says"):
        upload(damaged)
    assert below(s3, URL) == content(graphs[0])


def written(method: str, path: str, name: str = "") -> bool:
    return method == "PUT" and name in path


MARK, CHUNK = "manifest.json", "neighbors/c/0"
"""What is sent first and last, and what is sent between."""
FAULTS = {
    403: (InputError, "no permission to write it (credentials come from the environment"),
    404: (InputError, "no such file, folder or bucket"),
    # As of tokens that have expired.
    400: (NetworkError, "the server cannot be written now (status 400); try again"),
    503: (NetworkError, "the server cannot be written now (status 503); try again"),
    429: (NetworkError, "the server cannot be written now (status 429); try again"),
    CUT: (NetworkError, "the server cannot be written now ("),
}
QUICK = set(zip(FAULTS, 3 * (MARK, CHUNK), strict=True))
"""Each fault, and each place of it, with some of the other."""


@pytest.mark.parametrize(
    ("status", "name"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] * (case not in QUICK))
        for case in itertools.product(FAULTS, (MARK, CHUNK))
    ],
)
def test_faults(
    proxy: Proxy,  # noqa: F811
    s3: Any,  # noqa: F811
    graphs: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    name: str,
) -> None:
    kind, said = FAULTS[status]
    upload(graphs[0])
    # The library itself asks again; not for long, in a test.
    monkeypatch.setattr("s3fs.core.S3FileSystem.retries", 1)
    proxy.fault = lambda method, path: status if written(method, path, name) else None
    with pytest.raises(kind) as caught:
        upload(graphs[1])
    assert said in str(caught.value)
    assert str(caught.value).startswith(TO)
    assert "secret-of-tests" not in str(caught.value)
    proxy.fault = lambda method, path: None
    if name == MARK:
        # Nothing was replaced.
        assert below(s3, URL) == content(graphs[0])
    else:
        with pytest.raises(StoreReplacedError, match=f"^{URL}: is being uploaded") as found:
            og.open(URL)
        assert found.value.exit_code == 75
    upload(graphs[1])
    assert below(s3, URL) == content(graphs[1])


def test_faults_of_reading(proxy: Proxy, graphs: list[Path]) -> None:  # noqa: F811
    for status, kind in ((403, InputError), (503, NetworkError)):
        proxy.fault = lambda method, path: status if method in ("GET", "HEAD") else None  # noqa: B023
        with pytest.raises(kind):
            upload(graphs[0])
    proxy.fault = lambda method, path: None
    with pytest.raises(NotAStoreError):
        og.open(URL)
    with pytest.raises(
        InputError, match=r"^s3://no-such-bucket/.*: no such file, folder or bucket"
    ):
        uploads.upload("s3://no-such-bucket/x", {"g.zarr": graphs[0]}, NoProgress())


class Changed:
    """A file system that does something before a method is called, or after it."""

    def __init__(self, files: Any, **methods: Any) -> None:
        self.files, self.methods = files, methods

    def __getattr__(self, name: str) -> Any:
        right = getattr(self.files, name)
        if name in self.methods:
            return lambda *args, **options: self.methods[name](right, *args, **options)
        return right


def changed(monkeypatch: pytest.MonkeyPatch, **methods: Any) -> None:
    right = uploads.file_system
    monkeypatch.setattr(uploads, "file_system", lambda url: Changed(right(url), **methods))


def test_what_is_not_as_it_was_sent(
    s3: Any,  # noqa: F811
    graphs: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def put(right: Any, path: str, url: str, **options: Any) -> None:
        await right(path, url, **options)
        await s3._pipe_file(url, b"?" * Path(path).stat().st_size)

    changed(monkeypatch, _put_file=put)
    (tmp_path / "a.csv").write_text("text")
    with pytest.raises(NetworkError, match=r"/a\.csv: is not what was sent \(size or MD5\); try"):
        upload(tmp_path / "a.csv", name="a.csv")
    with pytest.raises(NetworkError, match=r"/g\.zarr/.*: is not what was sent"):
        upload(graphs[0])
    with pytest.raises(StoreReplacedError, match="is being uploaded"):
        og.open(URL)


def test_tags_that_are_no_md5(
    s3: Any,  # noqa: F811
    graphs: list[Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of objects that are encrypted with keys of KMS."""
    opened: list[str] = []

    async def find(right: Any, *args: Any, **options: Any) -> Any:
        return {
            name: facts | {"ETag": f'"{md5(facts["ETag"].encode()).hexdigest()}"'}
            for name, facts in (await right(*args, **options)).items()
        }

    async def reading(right: Any, url: str) -> Any:
        opened.append(url)
        return await right(url)

    changed(monkeypatch, _find=find, _cat_file=reading)
    upload(graphs[0])
    assert below(s3, URL) == content(graphs[0])
    assert {f"{URL}/{name}" for name in Manifest.load(graphs[0]).files} < set(opened)


def test_two_uploads_at_once(
    s3: Any,  # noqa: F811
    graphs: list[Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = uploads.file_system
    begun: list[Future[None]] = []

    async def put(sending: Any, path: str, url: str, **options: Any) -> None:
        if not begun:
            monkeypatch.setattr(uploads, "file_system", right)
            begun.append(pool.submit(upload, graphs[1]))
            await asyncio.shield(asyncio.wrap_future(begun[0]))
        await sending(path, url, **options)

    changed(monkeypatch, _put_file=put)
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(OutputBusyError, match=f"^{URL}: another run uploads there") as caught,
    ):
        upload(graphs[0])
    assert caught.value.exit_code == 75
    begun[0].result()
    # The first has begun with no other file once the second had.
    assert listing(Path(og.open(URL).path)) == listing(graphs[1])


async def failing(*_: Any) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("stopped", "every"),
    [(True, 20), *(pytest.param(stopped, 7, marks=pytest.mark.slow) for stopped in (False, True))],
)
def test_a_reader_meanwhile(
    s3: Any,  # noqa: F811
    graphs: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    stopped: bool,
    every: int,
) -> None:
    """Whichever of the files it fetches next: it has either store as a whole, or says so."""
    files, right = Manifest.load(graphs[0]).files, stores.content_of
    monkeypatch.setattr(stores, "_AT_ONCE", 1)
    for number in range(0, len(files), every):
        upload(graphs[0])
        left = [number + 2]

        def content_of(system: Any, source: str, left: list[int] = left) -> bytes | None:
            left[0] -= 1
            if left[0] == 0:
                if stopped:
                    stop = pytest.MonkeyPatch()
                    changed(stop, _put_file=failing)
                    with pytest.raises(InputError), stop.context():
                        upload(graphs[1])
                    stop.undo()
                else:
                    upload(graphs[1])
            return right(system, source)

        monkeypatch.setattr(stores, "content_of", content_of)
        monkeypatch.setenv("OOC_GRAPH_CACHE", os.environ["OOC_GRAPH_CACHE"] + "x")
        try:
            path = stores.local_path(URL)
        except StoreReplacedError:
            pass
        else:
            # All that came after were the same.
            assert listing(Path(path)) == listing(graphs[0])
        assert left[0] <= 0
        monkeypatch.setattr(stores, "content_of", right)
        upload(graphs[1])
        assert content(Path(stores.local_path(URL))) == content(graphs[1])


def in_child(cache: str, calls: int, paths: Sequence[Path]) -> int:
    """Upload in a forked child, which is killed before a request of this number; 0: it was not."""
    child = os.fork()
    if not child:
        code = 99
        try:
            import s3fs

            os.environ["OOC_GRAPH_CACHE"] = cache
            right, left = s3fs.S3FileSystem._call_s3, [calls]

            async def counted(self: Any, *args: Any, **options: Any) -> Any:
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                return await right(self, *args, **options)

            s3fs.S3FileSystem._call_s3 = counted
            upload(*paths)
            code = 0
        finally:
            os._exit(code)
    return ended(child, f"request {calls}")


def read_in_child(cache: Path) -> str:
    """What a reader finds: the identity of a store, or the name of an error."""
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir()
    child = os.fork()
    if not child:
        os.environ["OOC_GRAPH_CACHE"] = str(cache)
        try:
            found = Manifest.load(Path(stores.local_path(URL))).sha256
        except OocGraphError as error:
            found = type(error).__name__
        except Exception as error:  # noqa: BLE001 - shown by the test
            found = repr(error)
        (cache / "found").write_text(found)
        os._exit(0)
    ended(child, "reader")
    return (cache / "found").read_text()


def killed_before_each_request(
    environment: dict[str, str], graphs: list[Path], folder: Path, step: int, every: int
) -> list[str]:
    """What readers find after each kill, before a request of some number and others behind it."""
    os.environ.update(environment)
    import s3fs  # noqa: F401 - children have it

    cache, found = folder / "cache", []
    old, new = (Manifest.load(graph).sha256 for graph in graphs)
    while True:
        # What the last one left is what stood there before.
        assert in_child(str(cache), 0, graphs[:1]) == 0
        assert read_in_child(cache) == old
        code = in_child(str(cache), step, graphs[1:])
        found.append(read_in_child(cache))
        assert in_child(str(cache), 0, graphs[1:]) == 0
        assert read_in_child(cache) == new, step
        if code == 0:
            assert found.pop() == new
            return [{old: "old", new: "new"}.get(one, one) for one in found]
        assert code == -signal.SIGKILL
        step += every


@pytest.mark.parametrize(
    ("step", "every"),
    [pytest.param(step, 3, marks=pytest.mark.slow) for step in (1, 2, 3)],
)
def test_killed_before_each_request(
    s3: Any,  # noqa: F811
    s3_server: str,  # noqa: F811
    graphs: list[Path],
    tmp_path: Path,
    step: int,
    every: int,
) -> None:
    environment = {name: os.environ[name] for name in os.environ if name.startswith("AWS_")}
    found = in_own_process(killed_before_each_request, environment, graphs, tmp_path, step, every)
    # Before the mark, while files are sent, and once the manifest is there.
    assert found == sorted(found, key=["old", "StoreReplacedError", "new"].index)
    assert set(found) == {"old", "StoreReplacedError", "new"}
    assert below(s3, URL) == content(graphs[1])


def test_checksums_of_other_stores() -> None:
    digest = md5(b"x")
    for facts in (
        {"ETag": f'"{digest.hexdigest()}"'},
        {"etag": "CKih", "md5Hash": base64.b64encode(digest.digest()).decode()},
        {"etag": '"0x8D"', "content_settings": {"content_md5": bytearray(digest.digest())}},
    ):
        assert uploads._md5_of(facts) == digest.hexdigest()
    for facts in ({}, {"ETag": f'"{digest.hexdigest()}-2"'}, {"content_settings": {}}):
        assert uploads._md5_of(facts) is None
