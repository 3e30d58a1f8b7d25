"""CUDA sources compile for every architecture, on machines without a GPU too."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ooc_graph.errors import DeviceError
from ooc_graph.kernels.cuda.bfs import peers as cuda_peers
from ooc_graph.kernels.cuda.bfs import search as cuda_bfs
from ooc_graph.kernels.cuda.many import bfs_plan as cuda_many_bfs_plan
from ooc_graph.kernels.cuda.many import prune as cuda_many_prune
from ooc_graph.kernels.cuda.many import search_plan as cuda_many
from ooc_graph.kernels.cuda.runtime import compilation as cuda_compilation
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.runtime import steps as cuda_steps
from ooc_graph.kernels.cuda.runtime.shares import TIERED, WIDE_WORDS
from ooc_graph.kernels.cuda.sssp import near_far as cuda_sssp_near
from ooc_graph.kernels.cuda.sssp import pull as cuda_sssp_pull
from ooc_graph.kernels.cuda.sssp import shared as cuda_sssp_shared
from ooc_graph.kernels.cuda.sssp import small as cuda_sssp_small
from ooc_graph.kernels.cuda.sssp.sums import sums_for
from ooc_graph.validate import cuda_loader
from tests.gpu import last_run
from tests.nvrtc import compile_cuda, need_nvrtc

# Compute capability, and shared memory that a block may have there (CUDA Programming Guide).
ARCHITECTURES = {80: 163, 90: 227, 100: 227}
WEIGHTED = [
    (np.dtype(w), np.dtype(d))
    for w, d in (
        ("float32", "float32"),
        ("float64", "float64"),
        ("int32", "int64"),
        ("int64", "int64"),
    )
]
DISTANCES = [np.dtype(name) for name in ("float32", "float64", "int64")]
IDS = [np.dtype(np.uint32), np.dtype(np.uint64)]
SMALL = 99 << 10  # as on 8.6, 8.9 and 12.0


# Weights as tuples have them, and how wide the stored ones are.
STORED: list[dict[str, int | str]] = [
    {},
    {"GIVEN": "float", "WORD": "u32"},
    {"GIVEN": "double", "WORD": "u64"},
    {"GIVEN": "i64", "WORD": "u32"},
    {"GIVEN": "i64", "WORD": "u64"},
]
# Every way to sum: weights, and whether in 64 bits though 32 would do.
SUMS = [
    sums_for(np.zeros(0, dtype), heaviest, wide=wide)
    for dtype, heaviest, wide in [
        ("float32", 0, False),
        ("float64", 0, False),
        ("int64", 2**32 - 2, False),
        ("int64", 2**32 - 2, True),
        ("int64", 2**32 - 1, False),
    ]
]


def variants(shared_bytes: int) -> list[tuple[str, dict[str, int | str]]]:
    """What the package compiles on a device with so much shared memory."""
    bytes_, ints = cuda_bfs.BYTE_LEVELS, cuda_bfs.INT_LEVELS
    return [
        ("bfs.cu", cuda_bfs.constants(shared_bytes, bytes_, count_arcs=False)),
        ("bfs.cu", cuda_bfs.constants(shared_bytes, ints, count_arcs=True)),
        ("bfs.cu", cuda_bfs.constants(shared_bytes, ints, count_arcs=False, thin=True)),
        ("bfs.cu", cuda_bfs.constants(shared_bytes, bytes_, count_arcs=False) | TIERED),
        ("bfs.cu", cuda_bfs.constants(shared_bytes, ints, count_arcs=False) | TIERED),
        *(
            ("bfs_peers.cu", cuda_peers.peers_constants(shared_bytes, count_arcs=counts) | tier)
            for counts in (False, True)
            for tier in ({}, TIERED)
        ),
        *(("sssp.cu", cuda_sssp_pull.constants(shared_bytes, s)) for s in SUMS if not s.wide),
        ("sssp.cu", cuda_sssp_pull.constants(shared_bytes, SUMS[0]) | TIERED),
        *(("sssp_near.cu", cuda_sssp_near.constants(shared_bytes, s)) for s in SUMS),
        *(
            ("sssp_near.cu", {**held, **cuda_sssp_near.constants(shared_bytes, s)})
            for s in SUMS
            for held in ({"FIXED": 1}, {"SMALL": 1})
        ),
        *(("sssp_small.cu", cuda_sssp_small.constants(s)) for s in SUMS),
        *(("sssp_answer.cu", s.constants) for s in SUMS),
        *(("store.cu", {"ID": ids, **kind}) for ids in ("u32", "u64") for kind in STORED),
        ("heads.cu", {}),
        ("heads.cu", cuda_sssp_pull.INFINITE_INTEGERS),
        ("heads.cu", cuda_sssp_pull.SHARES),
        ("heads.cu", WIDE_WORDS),
        *(("kronecker.cu", {"ID": ids}) for ids in ("u32", "u64")),
        ("disk_sssp.cu", {}),
        ("disk_tails.cu", {}),
        *(("many.cu", cuda_many.constants(d)) for d in DISTANCES),
        *((f"many_bfs{part}.cu", cuda_many_bfs_plan.constants()) for part in ("", "_answer")),
        ("floyd.cu", {}),
        ("floyd_answer.cu", cuda_many.constants(np.dtype(np.int64))),
        *(("many_prune.cu", cuda_many_prune.constants(d)) for d in DISTANCES),
        *(("bfs_rank.cu", cuda_steps.width(ids) | tier) for ids in IDS for tier in ({}, TIERED)),
        *(("bfs_rank_store.cu", cuda_steps.width(ids)) for ids in IDS),
        *(
            ("sssp_rank_store.cu", cuda_sssp_shared.constants(*types, ids))
            for types in WEIGHTED
            for ids in IDS
        ),
        ("bfs_disk.cu", {}),
        *(
            (name, cuda_sssp_shared.constants(*types, ids) | tier)
            for name in ("sssp_rank.cu", "sssp_owned.cu")
            for types in WEIGHTED
            for ids in IDS
            for tier in ({}, TIERED)
        ),
        *(("scatter.cu", {"ID": i, "MEASURE": m}) for i, m in (("u32", "u8"), ("i64", "i64"))),
        ("scatter.cu", {"MEASURE": "u8", "PARENT": "i64", "FOUND": "u32", "NAME": "i64"}),
    ]


def compiled(name: str, constants: dict[str, int | str], capability: int) -> tuple[str, bytes]:
    options = [*cuda_modules.OPTIONS, *cuda_modules.definitions(constants)]
    return compile_cuda(cuda_compilation.source(name), name, [*options, f"-arch=sm_{capability}"])


def test_every_source_has_a_variant() -> None:
    names = {name for name in cuda_compilation.SOURCES if name.endswith(".cu")}
    assert names == {name for name, _ in variants(SMALL)}


# The oldest. No source asks for which it is compiled, so the others say little more of sources.
@pytest.mark.parametrize(
    "capability",
    [80, *(pytest.param(newer, marks=pytest.mark.slow) for newer in (90, 100))],
    ids=ARCHITECTURES,
)
def test_sources_compile_without_a_word(capability: int) -> None:
    """A look at each: all variants take minutes."""
    wanted = variants(ARCHITECTURES[capability] << 10)
    require_silence({name: (name, constants) for name, constants in wanted}.values(), capability)


@pytest.mark.slow
@pytest.mark.timeout(1200)  # many programs: minutes on a busy machine
def test_all_variants_compile_without_a_word() -> None:
    """For the oldest architecture."""
    oldest = min(ARCHITECTURES)
    wanted = variants(ARCHITECTURES[oldest] << 10)
    wanted.append(("bfs.cu", {"TRACE": 1}))
    wanted += [v for v in variants(SMALL) if v[0] in {"bfs.cu", "sssp.cu", "sssp_near.cu"}]
    require_silence(wanted, oldest)


def require_silence(wanted: Iterable[tuple[str, dict[str, int | str]]], capability: int) -> None:
    need_nvrtc()
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda v: (v, compiled(*v, capability)), wanted))
    for variant, (log, code) in done:
        assert log == "", variant
        assert code[:4] == b"\x7fELF", variant


@pytest.mark.parametrize("capability", ARCHITECTURES)
@pytest.mark.parametrize("measure", cuda_loader.MEASURES)
@pytest.mark.parametrize(("ids", "group"), [("uint32", 1), ("int64", cuda_loader.FOUR)])
def test_the_validator_compiles_without_a_word(
    capability: int, measure: str, ids: str, group: int
) -> None:
    need_nvrtc()
    given = cuda_loader.options(np.dtype(measure), np.dtype(ids), group)
    options = [*given, f"-arch=sm_{capability}"]
    log, code = compile_cuda(cuda_loader.text(), cuda_loader.SOURCE.name, options)
    assert log == ""
    assert code[:4] == b"\x7fELF"


def test_errors_name_our_files_and_lines() -> None:
    need_nvrtc()
    text, expected = cuda_compilation.source("bfs.cu"), []
    for name, word in (
        ("bfs_plan.cuh", "Plan"),
        ("bfs_graph.cuh", "LevelTrace"),
        ("queue.cuh", "Queue"),
    ):
        lines = cuda_compilation.SOURCES[name].read_text().splitlines()
        line = next(i for i, found in enumerate(lines, 1) if found.startswith(f"struct {word} "))
        text = text.replace(f"struct {word} ", f"strict {word} ")
        expected.append(f"/{name}({line}): error")
    log, code = compile_cuda(text, "bfs.cu", list(cuda_modules.OPTIONS))
    assert not code
    assert [place for place in expected if place not in log] == []
    text = cuda_loader.text().replace("enum Edges ", "enumm Edges ")
    line = cuda_loader.SOURCE.read_text().splitlines().index("enum Edges { LEAVES, SPAN };") + 1
    log, _ = compile_cuda(text, "rules.cu", list(cuda_loader.options(np.dtype(np.uint8))))
    assert f"ooc_graph/validate/cuda/rules.cu({line}): error" in log


def test_headers_stand_in_the_text_once() -> None:
    text = cuda_compilation.source("sssp.cu")
    assert "#include" not in text
    assert "#pragma once" not in text
    for struct in ("Barrier", "Queue", "WarpBuffer"):
        assert text.count(f"struct {struct} {{") == 1


def test_too_little_shared_memory_is_said() -> None:
    with pytest.raises(DeviceError, match="65536 bytes of shared memory"):
        cuda_bfs.constants(64 << 10, cuda_bfs.BYTE_LEVELS, count_arcs=False)
    with pytest.raises(DeviceError, match="32768 bytes of shared memory"):
        cuda_sssp_pull.constants(32 << 10, SUMS[0])
    with pytest.raises(DeviceError, match="16384 bytes of shared memory"):
        cuda_sssp_near.constants(16 << 10, SUMS[0])


def test_missing_cupy_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DeviceError, match=r"pip install 'ooc-graph\[cuda13\]'") as caught:
        cuda_modules.cuda()
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    with pytest.raises(DeviceError, match="needs CuPy"):
        cuda_loader.cuda()


class NoDriver:
    """Stands in for a CuPy on a machine without a device."""

    class cuda:
        class runtime:
            CUDARuntimeError = OSError

            @staticmethod
            def getDeviceCount() -> int:
                raise OSError("cudaErrorNoDevice")


def test_missing_device_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", NoDriver())
    with pytest.raises(DeviceError, match="no CUDA device can be used: cudaErrorNoDevice"):
        cuda_modules.cuda()
    monkeypatch.setattr(NoDriver.cuda.runtime, "getDeviceCount", lambda: 0)
    with pytest.raises(DeviceError, match="CUDA_VISIBLE_DEVICES"):
        cuda_modules.cuda()


AGAIN = (
    "GPU code or GPU tests have changed since they last ran on a GPU. On a machine that has one, "
    "with the reference graphs (OOC_GRAPH_SHARED), so that nothing is skipped: "
    "OOC_GRAPH_GPU_RECORD=1 make gpu-test, then .venv/bin/python -m tests.gpu.sanitize; "
    "commit tests/gpu/last_run.json"
)


@pytest.mark.parametrize("part", [last_run.TESTS, last_run.SANITIZER])
def test_what_stands_here_ran_on_a_gpu(part: str) -> None:
    """Or is marked as not proved, for these sources alone: the mark goes with the next run."""
    record, now = last_run.read()[part], last_run.sources_sha256()
    stale = record.get("stale")
    if stale is not None and stale["sources_sha256"] == now:
        pytest.skip(f"{stale['why']}. {AGAIN}")
    assert record["sources_sha256"] == now, AGAIN


def test_nothing_was_found_on_a_gpu() -> None:
    record = last_run.read()
    files = record["tests"]["files"].values()
    assert sum(found["failed"] for found in files) == 0, AGAIN
    assert sum(found["passed"] for found in files) > 2000, AGAIN
    tools = record["sanitizer"]["tools"]
    assert tools.keys() == {"memcheck", "racecheck", "synccheck", "initcheck"}, AGAIN
    assert {found["errors"] for found in tools.values()} == {0}, AGAIN


@pytest.mark.parametrize("name", last_run.test_files())
def test_a_file_of_tests_passed_on_a_gpu(name: str) -> None:
    """One that has changed since, is new, or needs more devices, is shown as skipped."""
    found = last_run.read()["tests"]["files"].get(name)
    if found is None or found["sha256"] != last_run.test_files()[name]:
        pytest.skip(f"tests/gpu/{name} has not run on a GPU as it stands here. {AGAIN}")
    assert found["failed"] == 0, AGAIN
    assert found["passed"] > 0, AGAIN
    if found["skipped"]:
        pytest.skip(f"{found['skipped']} of tests/gpu/{name} need more than that machine had")


MEANT = "import a\n\n\ndef f():\n    return a.g(1)\n"


@pytest.mark.parametrize(
    ("name", "text", "is_same"),
    [
        ("f.py", MEANT.replace("import a", "from b import c as a"), True),
        ("f.py", MEANT.replace("    ret", '    """Says so."""\n    # Why.\n    ret'), True),
        ("f.py", MEANT.replace("1", "2"), False),
        ("f.py", MEANT.replace("a.g", "a.h"), False),
        ("f.py", MEANT.replace("return ", ""), False),
        ("f.cu", '#include "folder/other/rows.cuh"\nint f(int);\n', True),
        ("f.cu", '#include "columns.cuh"\nint f(int);\n', False),
        ("f.cu", '#include "rows.cuh"\nint f(int); // so\n', False),
    ],
)
def test_a_move_changes_no_meaning(name: str, text: str, is_same: bool, tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    (before / name).write_text(MEANT if name == "f.py" else '#include "rows.cuh"\nint f(int);\n')
    (after / name).write_text(text)
    found = [last_run.meaning_sha256(folder / name) for folder in (before, after)]
    assert (found[0] == found[1]) == is_same


def test_changed_sources_are_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kept = tmp_path / "last_run.json"
    monkeypatch.setattr(last_run, "circumstances", lambda: {"device": "none"})
    for part in (last_run.TESTS, last_run.SANITIZER):
        last_run.write(part, {}, kept)
    before = last_run.sources_sha256()
    assert {found["sources_sha256"] for found in json.loads(kept.read_text()).values()} == {before}
    # A file of tests has a hash of its own; what it shares with others, and kernels, have one.
    with monkeypatch.context() as patch:
        patch.setattr(last_run, "TESTS_ALONE", ())
        assert last_run.sources_sha256() != before
    monkeypatch.setattr(last_run, "HASHED", last_run.HASHED[1:])
    assert last_run.sources_sha256() != before
