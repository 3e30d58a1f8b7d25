"""Stores at URLs: copies with the same bytes, what is fetched again, and what is noticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import (
    CorruptStoreError,
    DiskFullError,
    InputError,
    NetworkError,
    NotAStoreError,
    StoreReplacedError,
)
from ooc_graph.layout.manifest import Manifest
from ooc_graph.remote import copies, stores
from tests.command_line import listing, script
from tests.job_runs import Command, done_by, skipped
from tests.remote_stores import BUCKET, Site, s3, s3_server, web  # noqa: F401 (fixtures)

URL = f"s3://{BUCKET}/g.zarr"


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two graphs with some files in common: the second has the same vertices, all of degree 2."""
    folder = tmp_path_factory.mktemp("graphs")
    ids = np.arange(50)
    columns = [(ids, (ids + step) % 50) for step in (1, 3)]
    for number, (source, target) in enumerate(columns):
        og.build((source, target), folder / f"{number}.zarr", client=False, device="cpu")
    return sorted(folder.glob("*.zarr"))


def served(web: Site, store: Path) -> str:  # noqa: F811
    """Serve a store; its URL."""
    web.files = {
        f"/g.zarr/{path.relative_to(store).as_posix()}": path.read_bytes()
        for path in store.rglob("*")
        if path.is_file()
    }
    return f"{web.url}/g.zarr"


def fetched(web: Site) -> set[str]:  # noqa: F811
    """Files that were asked for since the last call, without the manifest."""
    names = {path.removeprefix("/g.zarr/") for path, _ in web.asked}
    web.asked.clear()
    return names - {"manifest.json"}


def test_a_copy_is_the_store(
    s3: Any,  # noqa: F811
    graphs: list[Path],
    tmp_path: Path,
    ooc: Command,
) -> None:
    s3.put(str(graphs[0]), URL, recursive=True)
    graph, local = og.open(URL), og.open(graphs[0])
    assert listing(Path(graph.path)) == listing(graphs[0])
    found, expected = (og.bfs(one, 7, client=False, device="cpu") for one in (graph, local))
    np.testing.assert_array_equal(found.parent, expected.parent)
    og.validate(URL + "/", found, client=False)
    said = ooc("bfs", URL, "--source", "7", "--out", tmp_path / "b.zarr", "--device", "cpu")
    assert said.code == 0, said
    assert ooc("validate", URL, tmp_path / "b.zarr").code == 0
    assert json.loads(ooc("info", URL, "--json").out)["kind"] == "graph"
    assert ooc("verify", URL).code == 0
    assert not list(copies.cache_folder().rglob(".*"))


def test_what_is_there_is_not_fetched_again(web: Site, graphs: list[Path]) -> None:  # noqa: F811
    url = served(web, graphs[0])
    files = [Manifest.load(graph).files for graph in graphs]
    path = Path(og.open(url).path)
    assert fetched(web) == set(files[0])
    og.open(url)
    assert fetched(web) == set()
    served(web, graphs[1])
    changed = {name for name in files[1] if files[1][name] != files[0].get(name)}
    assert changed < set(files[1])
    assert Path(og.open(url).path) == path
    assert fetched(web) == changed
    assert listing(path) == listing(graphs[1])
    # A file that is lost here is fetched again, alone.
    (path / "zarr.json").unlink()
    og.open(url)
    assert fetched(web) == {"zarr.json"}


def test_a_graph_that_was_opened_is_not_another_one(web: Site, graphs: list[Path]) -> None:  # noqa: F811
    opened = og.open(served(web, graphs[0]))
    og.open(served(web, graphs[1]))
    with pytest.raises(StoreReplacedError):
        og.bfs(opened, 7, client=False, device="cpu")


KILLED = """
import os, sys
from pathlib import Path
from ooc_graph.remote import stores
import ooc_graph as og
stores._AT_ONCE, right, left = 1, stores.whole_file, [5]
def counted(path):
    left[0] -= 1
    if not left[0]:
        os._exit(9)
    return right(path)
stores.whole_file = counted
og.open(sys.argv[1])
"""


def test_a_killed_fetch_is_gone_on_with(web: Site, graphs: list[Path]) -> None:  # noqa: F811
    url = served(web, graphs[0])
    assert script("-c", KILLED, url).code == 9
    first = fetched(web)
    partial = copies.beside(stores.copy_path(url), "part")
    kept = {p.relative_to(partial).as_posix() for p in partial.rglob("*") if p.is_file()}
    assert len(kept) == 4
    assert kept < first
    # One of them is not what it was.
    wrong = max(kept)
    (partial / wrong).write_bytes(b"?")
    path = Path(og.open(url).path)
    assert fetched(web) == set(Manifest.load(graphs[0]).files) - kept | {wrong}
    assert listing(path) == listing(graphs[0])


@pytest.mark.parametrize("how", ["changed", "short", "missing"])
def test_a_file_that_is_not_the_manifests(web: Site, graphs: list[Path], how: str) -> None:  # noqa: F811
    url = served(web, graphs[0])
    name = max(name for name in web.files if name.endswith("/c/0"))
    content = web.files[name]
    if how == "missing":
        del web.files[name]
    else:
        web.files[name] = content[:-1] + (b"" if how == "short" else bytes([content[-1] ^ 1]))
    said = "is missing" if how == "missing" else r"is not what the manifest says \(size or hash"
    with pytest.raises(CorruptStoreError, match=f"^{web.url}{name}: {said}"):
        og.open(url)
    assert not stores.copy_path(url).exists()
    web.files[name] = content
    assert listing(Path(og.open(url).path)) == listing(graphs[0])


def test_a_store_that_is_replaced_meanwhile(
    web: Site,  # noqa: F811
    graphs: list[Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, first = served(web, graphs[0]), web.files
    served(web, graphs[1])
    second = web.files["/g.zarr/manifest.json"]
    # The new files are there, and the old manifest until it is read.
    web.files |= {"/g.zarr/manifest.json": first["/g.zarr/manifest.json"]}
    web.once["/g.zarr/manifest.json"] = second
    with pytest.raises(StoreReplacedError, match="was replaced while it was fetched; try again"):
        og.open(url)
    assert listing(Path(og.open(url).path)) == listing(graphs[1])


def test_what_is_no_store(s3: Any, web: Site, graphs: list[Path]) -> None:  # noqa: F811
    with pytest.raises(NotAStoreError, match=f"^{URL}: not a finished store of this package"):
        og.open(URL)
    url = served(web, graphs[0])
    web.files["/g.zarr/manifest.json"] = b"{}"
    with pytest.raises(CorruptStoreError, match=rf"^{url}/manifest\.json: damaged manifest"):
        og.open(url)
    entries = list(Manifest.load(graphs[0]).files.values())
    object.__setattr__(entries[0], "path", "../../outside")
    web.files["/g.zarr/manifest.json"] = Manifest.of("graph", entries).encode()
    with pytest.raises(CorruptStoreError, match="names a file outside of the store"):
        og.open(url)
    with pytest.raises(InputError, match=f"^{url}: a store's URL has no user or query"):
        og.open(f"{url}?sig=S3cret")
    web.status = 500
    with pytest.raises(NetworkError):
        og.open(url)


def test_a_disk_that_is_too_small(
    web: Site,  # noqa: F811
    graphs: list[Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = served(web, graphs[0])
    total = sum(entry.size for entry in Manifest.load(graphs[0]).files.values())
    usage = copies.shutil.disk_usage("/")
    monkeypatch.setattr(copies.shutil, "disk_usage", lambda path: usage._replace(free=9))
    with pytest.raises(DiskFullError, match=rf"{total:,} bytes of .*/g\.zarr are to be fetched, 9"):
        og.open(url)


def test_jobs(web: Site, graphs: list[Path], tmp_path: Path, ooc: Command) -> None:  # noqa: F811
    url = served(web, graphs[0])
    job, run = tmp_path / "job.toml", tmp_path / "run"
    source = f'[source]\nkind = "store"\npath = "{url}"\n'
    job.write_text(f'{source}[[stage]]\nkind = "bfs"\nroots = [7]\n')
    assert ooc("run", job, "--out", run, "--dry-run").code == 0
    assert fetched(web) == set()
    assert done_by(ooc("run", job, "--out", run)) == ["bfs"]
    fetched(web)
    assert skipped(ooc("run", job, "--out", run)) == 1
    assert fetched(web) == set()
    served(web, graphs[1])
    again = ooc("run", job, "--out", run)
    assert "bfs: graph changed, done again" in again.out.splitlines()
