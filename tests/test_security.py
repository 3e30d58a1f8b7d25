"""What SECURITY.md says of stores, files of edges, jobs and locks from other people."""

from __future__ import annotations

import ast
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.api.vertices import ids_in
from ooc_graph.errors import CorruptStoreError, InputError, NotAStoreError, UsageError
from ooc_graph.jobs.folder import encoded, read_manifest
from ooc_graph.jobs.inputs import source_of
from ooc_graph.jobs.model import FilesSource
from ooc_graph.jobs.reading import read_job
from ooc_graph.layout.chunks import FileEntry
from ooc_graph.layout.commit import partial_store
from ooc_graph.layout.digests import digest_of
from ooc_graph.layout.locks import locked
from ooc_graph.layout.manifest import Manifest
from ooc_graph.layout.stored import Stored
from ooc_graph.runtime.cluster import local_cluster
from tests.command_line import REPOSITORY, command
from tests.job_runs import small_job

PACKAGE = REPOSITORY / "ooc_graph"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    (folder / "edges.txt").write_text("10 20 4\n20 30 1\n10 30 7\n30 40 2\n")
    og.build(folder / "edges.txt", folder / "g.zarr")
    return folder / "g.zarr"


@pytest.fixture
def store(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "s" / "g.zarr"))


def sign(store: Path, *more: FileEntry, kind: str = "graph") -> None:
    """Write a manifest of what is there by now, with right hashes, as a forger would."""
    entries = dict(Manifest.load(store).files)
    for name, entry in entries.items():
        content = (store / name).read_bytes()
        entries[name] = replace(entry, size=len(content), digest=digest_of(content))
    made = Manifest.of(kind, [*entries.values(), *more])
    (store / "manifest.json").write_bytes(made.encode())


def declare(store: Path, file: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what a metadata document says, and sign it."""
    document = json.loads((store / file).read_bytes())
    change(document)
    (store / file).write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    sign(store)


def test_what_is_signed_alone_is_opened(store: Path) -> None:
    sign(store)
    assert og.open(store).vertices == 4


@pytest.mark.parametrize("name", ["../secret", "/secret", "shards/../../secret", "a//b", "./a"])
def test_names_that_lead_out_of_a_store(name: str, store: Path) -> None:
    (store.parent / "secret").write_text("x")
    sign(store, FileEntry(name, 1, digest_of(b"x")))
    with pytest.raises(CorruptStoreError, match="names a file outside of the store"):
        Stored.open(store)


@pytest.mark.parametrize("kind", ["file", "folder", "pipe"])
def test_links_and_pipes_in_a_store(kind: str, store: Path, tmp_path: Path) -> None:
    """The same bytes stand elsewhere: nothing but the link tells."""
    path = store / ("tuples" if kind == "folder" else "tuples/c/0")
    path.rename(tmp_path / "elsewhere")
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CorruptStoreError, match=f"{path}: .*is a (symbolic )?link"):
        Stored.open(store)


def test_a_manifest_that_is_a_link(store: Path, tmp_path: Path) -> None:
    (store / "manifest.json").rename(tmp_path / "elsewhere")
    (store / "manifest.json").symlink_to("/dev/zero")
    with pytest.raises(NotAStoreError):
        Stored.open(store)


def test_a_store_behind_a_link_is_opened(store: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store)
    assert og.open(tmp_path / "link").vertices == 4


@pytest.mark.parametrize("length", [1 << 50, 5, -1])
def test_arrays_longer_than_their_files(length: int, store: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["shape"] = [length]
        chunk = max(1, min(length, (16 << 20) // 8))
        document["chunk_grid"]["configuration"]["chunk_shape"] = [chunk]

    declare(store, "original_of/zarr.json", change)
    stored = Stored.open(store)
    with pytest.raises(CorruptStoreError, match="original_of"):
        stored.read("original_of")


def test_arrays_of_objects(store: Path) -> None:
    declare(store, "original_of/zarr.json", lambda found: found.update(data_type="object"))
    stored = Stored.open(store)
    with pytest.raises(CorruptStoreError, match="not stored the way this package stores arrays"):
        stored.read("original_of")


@pytest.mark.parametrize(
    ("name", "value"),
    [("shards", 1 << 40), ("shards", 2), ("rows", 1 << 50), ("vertices", 3), ("rows", "many")],
)
def test_attributes_that_differ_from_the_arrays(name: str, value: Any, store: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["attributes"]["ooc_graph"][name] = value

    declare(store, "zarr.json", change)
    with pytest.raises(CorruptStoreError, match="its attributes are not those of its arrays"):
        og.open(store)


def npy(shape: tuple[int, ...], data: bytes, dtype: str = "<i8") -> bytes:
    header = str({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize("shape", [(1 << 50,), (-3,)])
@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_headers_of_arrays_that_are_not_there(
    kind: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    """Memory for them would be taken before the first element is read."""
    path = tmp_path / f"edges.{kind}"
    if kind == "npy":
        path.write_bytes(npy((*shape, 2), bytes(64)))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name in ("source", "target"):
                archive.writestr(f"{name}.npy", npy(shape, bytes(64)))
    with pytest.raises(InputError, match="the file is shorter"):
        og.open_source(path)


class Trap:
    """Leaves a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    np.save(tmp_path / "e.npy", np.array([[Trap(sprung)] * 2] * 3), allow_pickle=True)
    np.savez(tmp_path / "e.npz", source=np.array([Trap(sprung)]), target=np.array([Trap(sprung)]))
    pickle.loads(pickle.dumps(Trap(tmp_path / "works")))
    assert (tmp_path / "works").exists()
    for read, name in ((og.open_source, "e.npy"), (og.open_source, "e.npz"), (ids_in, "e.npy")):
        with pytest.raises(InputError):
            read(tmp_path / name)
    assert not sprung.exists()


def test_who_unpickles() -> None:
    """What comes from the cluster's own processes alone; `numpy.load` never does."""
    found = set[str]()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                assert "allow_pickle" not in [word.arg for word in node.keywords], path
                if ast.unparse(node.func) in ("pickle.load", "pickle.loads", "pickle.Unpickler"):
                    found.add(path.relative_to(PACKAGE).as_posix())
    assert found == {"exchange/handle.py", "exchange/resident.py", "exchange/written.py"}


def test_a_lock_empties_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "g.zarr.lock").symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError), locked(tmp_path / "g.zarr", "run"):
        pass
    assert (tmp_path / "mine").read_text() == "precious"


def test_units_of_a_run_stay_in_its_folder(tmp_path: Path) -> None:
    step: dict[str, Any] = {"kind": "bfs", "fingerprint": "x", "wanted": "y", "total": 1}
    step |= {"asked": {}, "listed": {}, "begun": {}, "done": True, "units": {}}
    manifest = {"job": "j", "files": {}, "asked": {}, "steps": {"bfs": step}}
    for name in ("10", "../../up"):
        step["units"] = {name: {"seconds": 1.0}}
        (tmp_path / "run.json").write_text(encoded(manifest))
        if name == "10":
            assert read_manifest(tmp_path) == manifest
    with pytest.raises(CorruptStoreError, match=r"is damaged \(.*units\.\.\./\.\./up"):
        read_manifest(tmp_path)


def test_files_of_a_run_with_names_that_no_system_has(tmp_path: Path) -> None:
    source = read_job(small_job(tmp_path)).source
    assert isinstance(source, FilesSource)
    files = {"lists": {source.paths[0]: {"paths": ["y" * 300], "stamps": {}}}}
    assert [one["name"] for one in source_of(source, files)["files"]] == ["edges.txt"]


URL = "tcp://me:hunter2@example.org:8786"
JOB = '[source]\nkind = "kronecker"\nscale = 5\n[cluster]\nkind = "address"\naddress = "{}"\n'


@pytest.mark.parametrize("settings", [[], [f"cluster.address={URL}"]])
def test_jobs_with_passwords_are_refused_and_not_repeated(
    settings: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "night.toml"
    path.write_text(JOB.format("tcp://x:1" if settings else URL))
    said = (
        r"cluster\.address: tcp://example.org:8786: a URL in a job has no user, password or query"
    )
    with pytest.raises(InputError, match=said) as caught:
        read_job(path, settings)
    assert "hunter2" not in str(caught.value)
    # Inside of other words, and beside other mistakes.
    words = [f'cluster.job_extra_directives=["-x {URL}"]', "cluster.kind=slurm"]
    with pytest.raises(InputError, match=r"directives\[0\]: a URL in a job has no user") as caught:
        read_job(path, [*settings, *words])
    assert "hunter2" not in str(caught.value)
    assert "cluster.jobs: is missing" in str(caught.value)
    path.write_text(JOB.format("tcp://example.org:8786"))
    assert read_job(path).cluster is not None


def test_a_run_keeps_nothing_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__SOCKS", "hunter2")
    path = small_job(tmp_path)
    assert command("run", path, "--quiet", cwd=tmp_path).code == 0
    (tmp_path / "edges.txt").write_text("10 twenty 4\n")
    assert command("run", path, "--quiet", cwd=tmp_path).code == 2
    files = [one for one in (tmp_path / "runs").rglob("*") if one.is_file()]
    assert {"job.toml", "run.json", "events.jsonl", "summary.json"} <= {one.name for one in files}
    assert not [one for one in files if b"hunter2" in one.read_bytes()]


def test_a_local_cluster_listens_to_this_machine_alone() -> None:
    with local_cluster(1) as client:
        info = client.scheduler_info()
        assert info["address"].startswith("tcp://127.0.0.1:")
        assert all(worker.startswith("tcp://127.0.0.1:") for worker in info["workers"])


def test_stores_are_written_without_links(tmp_path: Path) -> None:
    """So that what this package writes is never refused."""
    with partial_store(tmp_path / "s.zarr", "graph", overwrite=False) as partial:
        partial.commit("graph", {}, [], [])
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))
