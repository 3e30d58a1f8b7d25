"""Stores: manifests, metadata and chunks, as they are and signed anew; what is beside stores."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import ooc_graph as og
from ooc_graph.answers.result import Result
from ooc_graph.layout.checkpoints import DONE, SPILL, Checkpoints
from ooc_graph.layout.chunks import FileEntry
from ooc_graph.layout.digests import digest_of
from ooc_graph.layout.kinds import kind_of
from ooc_graph.layout.locks import Lock
from ooc_graph.layout.manifest import Manifest
from ooc_graph.layout.spilled import SpillWriter
from ooc_graph.layout.store_folder import refuse_other_folder
from ooc_graph.layout.stored import Stored
from ooc_graph.report.records import read_records
from ooc_graph.search.rank_states import before
from ooc_graph.shards.load import Graph
from ooc_graph.types import Dealing
from tests.fuzz.targets import TARGETS, Fuzzed, json_of, target

MANIFEST, METADATA = "manifest.json", "zarr.json"
EDGES = "10 20 4\n20 30 1\n10 30 7\n30 40 2\n50 50 1\n"
RESULT = "answer.zarr"
PACKED = "shards/00000/out/hub/neighbors"
"""An array of few bits, if graphs are compressed."""


def built(folder: Path, **options: Any) -> Path:
    """The store of a small graph whose ids have gaps."""
    (folder / "edges.txt").write_text(EDGES)
    path = folder / "g.zarr"
    og.build(folder / "edges.txt", path, client=False, device="cpu", **options)
    return path


def small(folder: Path) -> Path:
    """The store of a graph with as few arrays as there can be."""
    return built(folder, directed=False, weight=False)


def _answered(folder: Path) -> Path:
    path = folder / RESULT
    og.sssp(built(folder), 10, out=path, client=False, device="cpu")
    return path


def look_at(path: Path, array: str = "original_of") -> None:
    """Open a store, see which arrays it has, and read one of them."""
    stored = Stored.open(path)
    specs = {spec.path: spec for spec in stored.arrays()}
    spec = specs.get(array)
    if spec is not None:
        assert spec.dtype.kind in "iuf"
        assert spec.length * spec.item_bytes < 1 << 30
        assert stored.read(array).shape == spec.shape(spec.length)
        stored.sidecar(array)


def _verified(path: Path) -> None:
    look_at(path)
    Stored.open(path).verify()


def _graph(path: Path) -> None:
    graph = Graph.open(path)
    assert graph.vertices == graph.stored.spec("internal_of").length
    assert isinstance(graph.summary, str)
    assert graph.weight_dtype is None or graph.weight_dtype.kind in "iuf"
    assert isinstance(graph.arcs + graph.edges, int)
    assert isinstance(graph.has_negative_weights or graph.directed or graph.weighted, bool)
    # Memory for them would be taken.
    assert len(graph.original_ids()) == graph.vertices
    assert graph.resident_bytes("hub") < 1 << 30


def _result(path: Path) -> None:
    found = Result.open(path)
    assert repr(found)
    assert isinstance(found.names, tuple)
    assert isinstance(getattr(found, "count", 0), int)


@target("manifest")
def manifest(folder: Path) -> Fuzzed:
    path = small(folder)
    right = (path / MANIFEST).read_bytes()

    def read(data: bytes) -> None:
        (path / MANIFEST).write_bytes(data)
        kind_of(path)
        assert Manifest.load(path).encode() == data

    return Fuzzed([right], read)


@target("manifest-signed")
def signed_manifest(folder: Path) -> Fuzzed:
    path = small(folder)
    right = (path / MANIFEST).read_bytes()
    body = json.loads(right)["body"]
    few = {name: row for name, row in body["files"].items() if name in (METADATA, "tuples/c/0")}

    def read(data: bytes) -> None:
        found = json_of(data)
        digest = sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
        document = {"sha256": digest, "body": found}
        (path / MANIFEST).write_text(json.dumps(document, sort_keys=True, indent=1) + "\n")
        look_at(path)

    return Fuzzed([json.dumps(one).encode() for one in (body | {"files": few}, body)], read)


def signer(store: Path, name: str) -> Callable[[bytes], None]:
    """What replaces a file of a store and signs the manifest, as a forger would."""
    right = Manifest.load(store)

    def sign(data: bytes) -> None:
        (store / name).write_bytes(data)
        entry = FileEntry(name, len(data), digest_of(data))
        files = {**right.files, name: replace(right.files[name], **entry_facts(entry))}
        (store / MANIFEST).write_bytes(Manifest.of(right.kind, files.values()).encode())

    return sign


def entry_facts(entry: FileEntry) -> dict[str, Any]:
    return {"size": entry.size, "digest": entry.digest}


def _signed(
    name: str, file: str, made: Callable[[Path], Path], opened: Callable[[Path], None]
) -> None:
    """A file of a store, right by its manifest."""

    def prepare(folder: Path) -> Fuzzed:
        path = made(folder)
        seeds, sign = [(path / file).read_bytes()], signer(path, file)

        def read(data: bytes) -> None:
            sign(data)
            opened(path)

        return Fuzzed(seeds, read)

    TARGETS[f"signed-{name}"] = prepare


_signed("graph", METADATA, built, _graph)
_signed("result", METADATA, _answered, _result)
_signed("array", f"original_of/{METADATA}", small, look_at)
_signed("matrix", f"original_of/{METADATA}", built, _graph)
_signed(
    "packed",
    f"{PACKED}/{METADATA}",
    lambda folder: built(folder, directed=False, weight=False, compress=True),
    lambda path: look_at(path, PACKED),
)
_signed("sidecar", "integrity/original_of.crc32c", small, look_at)


def _damaged(name: str, file: str) -> None:
    """A file of a store that is another one than its manifest says."""

    def prepare(folder: Path) -> Fuzzed:
        path = small(folder)
        right = (path / file).read_bytes()

        def read(data: bytes) -> None:
            (path / file).write_bytes(data)
            _verified(path)
            assert data == right

        return Fuzzed([right], read)

    TARGETS[f"damaged-{name}"] = prepare


_damaged("chunk", "original_of/c/0")
_damaged("metadata", METADATA)


@target("checkpoint")
def checkpoint(folder: Path) -> Fuzzed:
    (folder / SPILL).mkdir()
    checkpoints = Checkpoints(folder, "fuzz", "{}")

    def write(scratch: Path) -> list[FileEntry]:
        with SpillWriter(scratch, f"{SPILL}/a") as writer:
            writer.write(np.arange(3))
        return [writer.entry]

    record = folder / DONE / "7.json"
    checkpoints.write("7", write, {"state": 1})
    seeds = [record.read_bytes()]

    def read(data: bytes) -> None:
        record.write_bytes(data)
        for number, found in checkpoints:
            assert number == 7
            assert isinstance(found.facts, dict)

    return Fuzzed(seeds, read)


@target("rank-state")
def rank_state(folder: Path) -> Fuzzed:
    (folder / SPILL).mkdir()
    checkpoints = Checkpoints(folder, "fuzz", "{}")
    name = "state-3-abcd-0-of-1"

    def write(scratch: Path) -> list[FileEntry]:
        with SpillWriter(scratch, f"{SPILL}/{name}-0") as writer:
            writer.write(np.arange(4))
        return [writer.entry]

    facts = {"state": {"level": 2}, "dtypes": ["int64"]}
    checkpoints.write(name, write, facts)
    record = folder / DONE / f"{name}.json"
    seeds = [record.read_bytes()]

    def read(data: bytes) -> None:
        record.write_bytes(data)
        found = before(checkpoints)
        if json_of(data) == json_of(seeds[0]):
            found.of_rank(folder, Dealing(4))

    return Fuzzed(seeds, read)


@target("folder-key")
def folder_key(folder: Path) -> Fuzzed:
    (folder / SPILL).mkdir()
    begun = {"graph": "abc", "kernel": "bfs"}

    def read(data: bytes) -> None:
        (folder / SPILL / "key").write_bytes(data)
        refuse_other_folder(folder, begun, overwrite=True)

    return Fuzzed([json.dumps(begun).encode()], read)


@target("lock")
def lock(folder: Path) -> Fuzzed:
    path = folder / "run.lock"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        assert Lock(path, "abc").is_own in (False, True)

    return Fuzzed([b'{"run": "abc", "pid": 3, "host": "h"}'], read)


@target("records")
def records(folder: Path) -> Fuzzed:
    path = folder / "records.jsonl"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        assert all(isinstance(one, dict) for one in read_records(path))

    return Fuzzed([b'{"a": 1}\n\n{"b": [2.5, null]}\n'], read)
