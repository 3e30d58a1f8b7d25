"""The commands run, status and runs: what is done, skipped, done again and refused."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import ClusterLostError, RunTakenOverError
from ooc_graph.jobs import workplace
from ooc_graph.jobs.folder import encoded, opened, read_manifest
from ooc_graph.jobs.model import LocalCluster
from ooc_graph.jobs.status import status_of
from ooc_graph.jobs.steps import Step
from tests.command_line import listing, script
from tests.job_runs import (
    CHANGED,
    STEPS,
    Command,
    done_by,
    events,
    published,
    skipped,
    small_job,
    summary,
)


def test_a_job_is_done_once(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    first = ooc("run", job, "--out", run)
    assert first.code == 0, first
    assert done_by(first) == list(STEPS)
    assert (run / "export" / "10.csv").read_text().splitlines() == [
        "vertex,distance,predecessor",
        "10,0,10",
        "20,1,10",
        "30,1,10",
        "40,2,30",
    ]
    assert og.ComponentsResult.open(run / "components.zarr").count == 1
    before, manifest = published(run), read_manifest(run)
    assert manifest is not None
    for name, entry in manifest["steps"].items():
        assert len(entry["fingerprint"]) == 64
        assert entry["asked"]["version"] == og.__version__
        for unit, facts in entry["units"].items():
            if name == "bfs":
                assert (
                    facts["sha256"] == og.Result.open(run / "bfs" / f"{unit}.zarr").columns.identity
                )  # type: ignore[union-attr]
    assert summary(run)["components"]["components"] == 1
    assert summary(run)["bfs"]["units"] == summary(run)["bfs"]["timed"] == 2

    again = ooc("run", job, "--out", run)
    assert again.code == 0, again
    assert skipped(again) == len(STEPS)
    assert published(run) == before
    said = [(one["event"], one.get("stage"), one.get("units")) for one in events(run)]
    assert said[0] == ("begun", None, None)
    at = said.index(("begun", "bfs", None))
    assert said[at : at + 6] == [
        ("begun", "bfs", None),
        ("begun", "bfs", ["10"]),
        ("done", "bfs", ["10"]),
        ("begun", "bfs", ["30"]),
        ("done", "bfs", ["30"]),
        ("done", "bfs", None),
    ]
    assert said[-2:] == [("skipped", "export", None), ("done", None, None)]


def test_a_finished_job_ends_at_once_without_numba_and_dask(ooc: Command, tmp_path: Path) -> None:
    # Nothing is left to do, so nobody is asked to do it: this scheduler does not exist.
    more = '[cluster]\nkind = "address"\naddress = "tcp://127.0.0.1:1"\n'
    job, run = small_job(tmp_path), tmp_path / "run"
    assert ooc("run", job, "--out", run).code == 0
    job.write_text(job.read_text() + more)
    program = (
        "import resource, sys, time\n"
        "begun = time.process_time()\n"
        f"sys.argv = ['ooc-graph', 'run', {str(job)!r}, '--out', {str(run)!r}]\n"
        "from ooc_graph.cli.entry import run\n"
        "assert run() == 0\n"
        "print({'numba', 'dask', 'distributed', 'zarr'} & set(sys.modules))\n"
        "print(time.process_time() - begun)\n"
    )
    done = script("-c", program)
    assert done.code == 0, done
    *lines, imported, seconds = done.out.splitlines()
    assert len(lines) == len(STEPS)
    assert imported == "set()"
    # Of the processor: whatever else runs on the machine.
    assert float(seconds) < 1


def test_the_job_that_was_asked_for_can_be_run_again(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    words = ("--set", "stage.bfs.roots=[20]", "--set", "retries.times=1", "--out", run)
    assert ooc("run", job, *words).code == 0
    asked = (run / "job.toml").read_text()
    assert 'name = "small"\n' in asked
    assert f'path = "{tmp_path}/edges.txt"\n' in asked
    assert "roots = [20]\n" in asked
    assert "[retries]\ntimes = 1\n" in asked
    again = ooc("run", run / "job.toml", "--out", run)
    assert (again.code, skipped(again)) == (0, len(STEPS)), again
    assert (run / "job.toml").read_text() == asked


def test_what_changed_is_done_again_with_what_follows_it(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    assert ooc("run", job, "--out", run).code == 0
    before = published(run)

    only = ooc("run", job, "--out", run, "--only", "build", "--set", "stage.bfs.roots=[10, 20]")
    assert (only.code, skipped(only)) == (0, 1)
    states = {step["step"]: step["state"] for step in status_of(run)["steps"]}
    assert states == dict.fromkeys(STEPS, "done") | dict.fromkeys(
        ("bfs", "validate", "export"), "new"
    )
    other = ooc("run", job, "--out", run, "--set", "stage.bfs.roots=[10, 20]")
    assert done_by(other) == ["bfs", "validate", "export"]
    for stage in ("bfs", "validate", "export"):
        assert f"{stage}: begun, 1 of 2 done before\n" in other.out
    assert (run / "export" / "20.csv").is_file()
    assert published(run).items() >= before.items()

    tabs = ooc("run", job, "--out", run, "--set", "stage.export.format=npz")
    assert done_by(tabs) == ["bfs", "validate", "export"]  # of the roots in the file again
    assert "export: format, roots changed, done again\n" in tabs.out
    assert published(run).items() >= before.items()

    packed = ooc("run", job, "--out", run, "--set", "build.compress=true")
    assert done_by(packed) == list(STEPS)
    assert "build: compress changed, done again\n" in packed.out
    assert published(run)["bfs/10.zarr/manifest.json"] != before["bfs/10.zarr/manifest.json"]

    # Where and how work is done changes nothing of the answers.
    quick = ("--set", "build.compress=true", "--set", "resources.memory_limit=2GiB")
    slow = ooc("run", job, "--out", run, *quick, "--set", "stage.bfs.method=edges")
    assert (slow.code, skipped(slow)) == (0, len(STEPS)), slow


def test_input_that_changed_is_read_again(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    assert ooc("run", job, "--out", run).code == 0
    before = published(run)
    small_job(tmp_path, edges=CHANGED)
    changed = ooc("run", job, "--out", run)
    assert changed.code == 0, changed
    assert "build: edges.txt changed, done again\n" in changed.out
    assert done_by(changed) == list(STEPS)
    assert ooc("run", job, "--out", tmp_path / "anew").code == 0
    assert published(run) == published(tmp_path / "anew") != before
    # A file that was written again with the same content is no other one.
    small_job(tmp_path, edges=CHANGED)
    os.utime(tmp_path / "edges.txt", (1, 1))
    assert skipped(ooc("run", job, "--out", run)) == len(STEPS)
    # Nor is one elsewhere.
    (tmp_path / "moved").mkdir()
    shutil.move(tmp_path / "edges.txt", tmp_path / "moved" / "edges.txt")
    words = ("--out", run, "--set", "source.path=moved/edges.txt")
    assert skipped(ooc("run", job, *words)) == len(STEPS)


def test_a_file_more_in_a_folder_is_changed_input(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    (tmp_path / "in").mkdir()
    shutil.move(tmp_path / "edges.txt", tmp_path / "in")
    words = ("--out", run, "--set", "source.path=in", "--set", "source.format=edgelist")
    assert ooc("run", job, *words).code == 0
    (tmp_path / "in" / "more.txt").write_text("50 10 1\n")
    changed = ooc("run", job, *words)
    assert "build: more.txt changed, done again\n" in changed.out
    files = og.open(run / "graph.zarr").attributes["source"]["files"]
    assert [file["name"] for file in files] == ["edges.txt", "more.txt"]


def test_roots_of_a_file_and_a_store_as_source(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    og.build(tmp_path / "edges.txt", tmp_path / "g.zarr", directed=True)
    (tmp_path / "roots.txt").write_text("30\n20\n")
    job.write_text(
        '[source]\nkind = "store"\npath = "g.zarr"\n'
        '[[stage]]\nkind = "sssp"\nroots_file = "roots.txt"\n'
        '[[stage]]\nkind = "validate"\nof = "sssp"\n'
    )
    assert done_by(ooc("run", job, "--out", run)) == ["sssp", "validate"]
    assert sorted(path.name for path in run.glob("sssp/*.zarr")) == ["20.zarr", "30.zarr"]
    (tmp_path / "roots.txt").write_text("30\n20\n10\n")
    more = ooc("run", job, "--out", run)
    assert "sssp: begun, 2 of 3 done before\n" in more.out
    assert len(list(run.glob("sssp/*.zarr"))) == 3
    og.build(
        (np.array([10, 20]), np.array([30, 40])), tmp_path / "g.zarr", overwrite=True, directed=True
    )
    assert "needs weights" not in more.err
    refused = ooc("run", job, "--out", run)
    assert refused.code == 2
    assert "sssp: graph changed, done again\n" in refused.out


@pytest.mark.parametrize("stage", ["bfs", "many"])
def test_a_graph_that_is_replaced_during_a_run_ends_it(
    stage: str, ooc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, run, graph = tmp_path / "job.toml", tmp_path / "run", tmp_path / "g.zarr"
    og.build((np.array([10, 20]), np.array([30, 40])), graph, directed=True)
    job.write_text(
        '[source]\nkind = "store"\npath = "g.zarr"\n[[stage]]\nkind = "components"\n'
        '[[stage]]\nkind = "bfs"\nroots = [10]\n[[stage]]\nkind = "export"\nof = "bfs"\n'
        '[[stage]]\nkind = "many"\nkernel = "multi_source_bfs"\n'
        "[retries]\ntimes = 3\nwait_s = 0\n"
    )
    name = {"bfs": "components", "many": "export"}[stage]
    find = getattr(og, name)

    def replaced(*given: Any, **options: Any) -> Any:
        found = find(*given, **options)
        og.build((np.array([10, 20]), np.array([20, 30])), graph, overwrite=True, directed=True)
        return found

    monkeypatch.setattr(og, name, replaced)
    done = ooc("run", job, "--out", run)
    assert done.code == 75, done
    said = f"{graph}: the graph was replaced during this run; run it again"
    assert done.err.splitlines()[-1] == f"ooc-graph: {said}"
    # Another attempt of the same run could not mend that.
    assert "again in" not in done.out
    assert not list(run.glob(f"{stage}*"))
    monkeypatch.undo()
    labels = ["components", "bfs", "export", "many"]
    assert done_by(ooc("run", job, "--out", run)) == labels
    assert ooc("run", job, "--out", tmp_path / "other").code == 0
    assert published(run) == published(tmp_path / "other")


def test_what_cpus_alone_do_needs_no_cuda_device(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path, '[[stage]]\nkind = "pagerank"\n'), tmp_path / "run"
    assert ooc("run", job, "--out", run, "--only", "build").code == 0
    settings = ["resources.device=cuda", "resources.device_memory=1GiB", "stage.bfs.method=edges"]
    words = [word for one in settings for word in ("--set", one)]
    for stage in ("bfs", "components", "pagerank"):
        done = ooc("run", job, "--out", run, *words, "--only", stage)
        assert done_by(done) == [stage], done


def test_pagerank_is_that_of_the_function(ooc: Command, tmp_path: Path) -> None:
    more = '[[stage]]\nkind = "pagerank"\npersonalization = "liked.txt"\n'
    more += '[[stage]]\nkind = "export"\nname = "ranks"\nof = "pagerank"\n'
    more += '[[stage]]\nkind = "validate"\nname = "proven"\nof = "pagerank"\n'
    (tmp_path / "liked.txt").write_text("10\n30\n")
    job, run = small_job(tmp_path, more), tmp_path / "run"
    assert ooc("run", job, "--out", run).code == 0
    right = og.pagerank(run / "graph.zarr", personalization={10: 1, 30: 1})
    found = og.PagerankResult.open(run / "pagerank.zarr")
    np.testing.assert_array_equal(found.pagerank, right.pagerank)
    lines = (run / "ranks" / "pagerank.csv").read_text().splitlines()
    scores = zip(right.vertex.tolist(), right.pagerank.tolist(), strict=True)
    assert lines == ["vertex,pagerank", *(f"{vertex},{score}" for vertex, score in scores)]
    done: Any = found.columns
    assert summary(run)["pagerank"]["iterations"] == done.attributes["iterations"] > 1
    # Known again, too, if the run was killed before it was noted.
    manifest: Any = read_manifest(run)
    manifest["steps"]["pagerank"] |= {"units": {}, "begun": {"pagerank": None}, "done": False}
    (run / "run.json").write_text(encoded(manifest))
    again = ooc("run", job, "--out", run)
    assert "pagerank: begun, 1 of 1 done before\n" in again.out
    assert summary(run)["pagerank"]["iterations"] == done.attributes["iterations"]
    (tmp_path / "liked.txt").write_text("40\n")
    other = ooc("run", job, "--out", run, "--set", "stage.pagerank.iterations=3")
    assert done_by(other) == ["pagerank", "ranks", "proven"]
    assert "pagerank: personalization, iterations changed, done again\n" in other.out
    said = json.loads(ooc("report", run, "--json").out)
    bound = summary(run)["proven"]["error_bound"]
    assert 0 < bound < 2
    results = [stage["result"] for stage in said[0]["stages"]]
    assert results[-3:] == ["3 iterations", "", f"at most {bound:g} from the true ranks"]


def test_outputs_that_are_gone_or_other_are_made_again(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    assert ooc("run", job, "--out", run).code == 0
    before = published(run)
    (run / "export" / "30.csv").unlink()
    (run / "export" / "10.csv").write_text("no answer")
    shutil.rmtree(run / "bfs" / "10.zarr")
    again = ooc("run", job, "--out", run)
    assert again.code == 0, again
    assert done_by(again) == ["bfs", "export"]
    assert "bfs: begun, 1 of 2 done before\n" in again.out
    assert published(run) == before
    shutil.rmtree(run / "graph.zarr")
    assert done_by(ooc("run", job, "--out", run)) == ["build"]
    assert published(run) == before


def test_a_run_that_was_copied_is_finished(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    assert ooc("run", job, "--out", run).code == 0
    shutil.copytree(run, tmp_path / "copy", copy_function=shutil.copyfile)
    copied = ooc("run", job, "--out", tmp_path / "copy")
    assert (copied.code, skipped(copied)) == (0, len(STEPS)), copied


def test_stages_that_are_chosen(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    early = ooc("run", job, "--out", run, "--only", "validate")
    assert early.code == 2
    assert not run.exists()
    assert "validate follows from bfs, which is not done; run that first" in early.err
    assert done_by(ooc("run", job, "--out", run, "--only", "build")) == ["build"]
    assert done_by(ooc("run", job, "--out", run, "--only", "bfs")) == ["bfs"]
    assert summary(run).keys() == {"build", "bfs"}
    rest = ooc("run", job, "--out", run, "--from", "validate")
    assert done_by(rest) == ["validate", "export"]
    assert done_by(ooc("run", job, "--out", run)) == ["components"]
    for words, said in (
        (("--only", "export", "--from", "bfs"), "--only and --from: give one of them"),
        (("--only", ""), "no stage is called ; there are build, bfs"),
        (("--only", "exprt"), "no stage is called exprt; did you mean export?"),
    ):
        refused = ooc("run", job, "--out", run, *words)
        assert refused.code == 2
        assert said in refused.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "none.toml"), "none.toml: cannot be read"),
        (("run",), "give a job file"),
        (("run", "small.toml", "--set", "source.path=none.txt"), "none.txt"),
        (("run", "small.toml", "--set", "stage.bfs.root=[1]"), "did you mean roots?"),
        (("run", "small.toml", "--set", "source.kind=store", "--set", "source.path=."), "source"),
        (("run", "small.toml", "--only", "none"), "no stage is called none"),
        (("run", "small.toml", "--out", "taken"), "taken: holds file and no run of a job"),
        (("run", "small.toml", "--out", "edges.txt"), "edges.txt: is a file; give another folder"),
        (("run", "small.toml", "--out", "edges.txt/run"), "edges.txt: is a file"),
        (("run", "small.toml", "--out", "g.zarr/run"), "lies inside the store"),
        (("status", "taken"), "taken: holds no run of a job"),
        (("runs", "none"), "none: no such folder"),
        (("run", "--example", "none"), "there are graph500"),
        (("run", "small.toml", "--out", "long" * 70), "the name is too long"),
        (("status", "long" * 70), "File name too long"),
        (("runs", "long" * 70), "File name too long"),
    ],
)
def test_refusals_write_nothing(
    words: tuple[str, ...],
    said: str,
    ooc: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small_job(tmp_path)
    og.build(tmp_path / "edges.txt", tmp_path / "g.zarr", directed=True)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    monkeypatch.chdir(tmp_path)
    before = listing(tmp_path)
    done = ooc(*words)
    assert done.code == 2, done
    assert said in done.err
    assert listing(tmp_path) == before


BAD_VERTICES: dict[str | None, str] = {
    None: "cannot be read (no such file)",
    "": "has no vertices (give one at least)",
    "30\nx\n": ":2: 'x' is no vertex id",
    "30\n-4\n": ":2: '-4' is no vertex id",
    "30\n10\n30\n": "vertex 30 is given twice",
}
OF_VERTICES = (
    'kind = "many"\nkernel = "multi_source_bfs"\nroots_file',
    'kind = "pagerank"\npersonalization',
)


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        *(('kind = "bfs"\nroots_file', text) for text in BAD_VERTICES),
        *((stage, "30\n-4\n") for stage in OF_VERTICES),
    ],
)
def test_files_of_vertices_are_read_before_anything_is_written(
    stage: str, text: str | None, ooc: Command, tmp_path: Path
) -> None:
    more = f'[[stage]]\nname = "last"\n{stage} = "roots.txt"\n'
    job, roots, run = small_job(tmp_path, more), tmp_path / "roots.txt", tmp_path / "run"
    if text is not None:
        roots.write_text(text)
    refused = ooc("run", job, "--out", run)
    assert (refused.code, refused.out) == (2, "")
    assert str(roots) in refused.err
    assert BAD_VERTICES[text] in refused.err
    assert not run.exists()
    # So is one that has become so.
    roots.write_text("30\n10\n")
    assert ooc("run", job, "--out", run).code == 0
    before = listing(run)
    roots.unlink()
    if text is not None:
        roots.write_text(text)
    assert ooc("run", job, "--out", run).err == refused.err
    assert listing(run) == before


def test_a_root_that_is_no_vertex_is_refused_when_the_graph_is_there(
    ooc: Command, tmp_path: Path
) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    refused = ooc("run", job, "--out", run, "--set", "stage.bfs.roots=[10, 9]")
    assert refused.code == 2
    assert "vertex 9" in refused.err
    for failed, stage in zip(events(run)[-2:], ("bfs", None), strict=True):
        assert (failed["event"], failed.get("stage")) == ("failed", stage)
        assert "vertex 9" in failed["error"]
    assert skipped(ooc("run", job, "--out", run)) == 1


def test_a_run_of_another_job_is_refused(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    assert ooc("run", job, "--out", run, "--only", "build").code == 0
    before = listing(run)
    other = ooc("run", job, "--out", run, "--set", "name=other")
    assert other.code == 2
    assert "holds a run of the job small, not of other; give another folder" in other.err
    assert listing(run) == before


@pytest.mark.parametrize(
    "text", [b'{"job": ', b"[]", b"{}", b"\xff", b'{"job": "small", "files": {}, "steps": []}']
)
def test_a_damaged_manifest_is_named(text: bytes, ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    assert ooc("run", job, "--out", run, "--only", "build").code == 0
    shutil.copytree(run, tmp_path / "intact")
    (run / "run.json").write_bytes(text)
    for words in (("run", job, "--out", run), ("status", run)):
        done = ooc(*words)
        assert done.code == 1
        assert f"{run}/run.json: is damaged" in done.err
        assert len(done.err.splitlines()) == 1
    listed = json.loads(ooc("runs", tmp_path, "--json").out)
    assert [(Path(one["folder"]).name, one["state"]) for one in listed] == [
        ("intact", "done"),
        ("run", "damaged"),
    ]


def test_what_else_is_damaged_is_made_again(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    assert ooc("run", job, "--out", run).code == 0
    before, asked = published(run), (run / "job.toml").read_text()
    (run / "graph.zarr" / "manifest.json").write_text("{}")
    (run / "job.toml").write_bytes(b"\xff")
    (run / "run.lock").write_text("[]")
    (run / "events.jsonl").write_bytes(b"\xff\n[1]\n{}\n")
    again = ooc("run", job, "--out", run)
    assert (again.code, done_by(again)) == (0, ["build"]), again
    assert published(run) == before
    assert (run / "job.toml").read_text() == asked
    assert status_of(run)["state"] == "done"


def test_a_stage_may_be_called_as_the_untimed_search(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    words = ("--out", run, "--set", "stage.components.name=warm-up")
    assert ooc("run", job, *words).code == 0
    assert skipped(ooc("run", job, *words)) == len(STEPS)


def test_keys_of_a_run_that_was_killed_are_removed(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    assert ooc("run", job, "--out", run).code == 0
    (run / "run.tls-0").mkdir()
    (run / "run.tls-0" / "key.pem").touch()
    assert skipped(ooc("run", job, "--out", run)) == len(STEPS)
    assert not list(run.glob("run.tls*"))


def test_a_build_does_not_replace_the_folder_of_a_run(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    assert ooc("run", job, "--out", run).code == 0
    before = listing(run)
    built = ooc("build", tmp_path / "edges.txt", run, "--overwrite")
    assert built.code == 2
    assert "is not a store of this package, so it is not replaced" in built.err
    assert listing(run) == before


def test_a_dry_run_says_what_would_be_done(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    before = listing(tmp_path)
    planned = ooc("run", job, "--out", run, "--dry-run")
    assert planned.code == 0, planned
    assert [line.split()[:3] for line in planned.out.splitlines()[1:-1]] == [
        [name, name, "new"] for name in STEPS
    ]
    assert listing(tmp_path) == before
    assert ooc("run", job, "--out", run, "--only", "build").code == 0
    before = listing(tmp_path)
    words = ("--dry-run", "--set", "stage.bfs.roots=[20]", "--from", "bfs")
    rows = ooc("run", job, "--out", run, *words).out.splitlines()[1:]
    assert rows[0].split() == ["build", "build", "done,", "not", "chosen"]
    held_bytes = og.plan(run / "graph.zarr")["bytes: in all"]
    assert f"memory, {held_bytes:,} bytes: in all" in rows[1]
    assert ooc("run", job, "--out", run).code == 0
    (run / "export" / "10.csv").unlink()
    rows = ooc("run", job, "--out", run, *words).out.splitlines()[1:]
    left = [" ".join(row.split()[2:7]) for row in rows]
    assert left[0] == "done, not chosen"
    assert left[2] == "done"
    assert left[3] == "2 of 2 done, roots"
    assert left[4] == "1 of 2 done, roots"
    rows = ooc("run", job, "--out", run, "--dry-run").out.splitlines()[1:]
    assert "1 of 2 done" in rows[-2]


def test_two_runs_at_once(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    edges = tmp_path / "edges.txt"
    with opened(run, "small"):
        # It is refused before it looks at its input.
        edges.rename(tmp_path / "gone.txt")
        second = ooc("run", job, "--out", run)
        (tmp_path / "gone.txt").rename(edges)
        assert json.loads((run / "run.lock").read_text())["since"]
        assert sorted(path.name for path in run.iterdir()) == ["run.lock"]
    assert second.code == 75
    assert f"{run}: another run is writing it" in second.err
    assert f"process {os.getpid()} on {socket.gethostname()}, since 20" in second.err
    assert ooc("run", job, "--out", run).code == 0
    assert not (run / "run.lock").exists()


@pytest.mark.parametrize("taken", ["replaced", "written", "removed"])
def test_a_run_whose_lock_was_taken_over_writes_nothing(taken: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with opened(folder, "small") as zombie:
        zombie.write()
        lock = folder / "run.lock"
        if taken == "written":
            # As by a host that was given the lock when this one was taken for dead.
            lock.write_text(json.dumps({"run": "another"}))
        else:
            lock.unlink()
        if taken == "replaced":
            lock.write_text(json.dumps({"run": "another"}))
        (folder / "graph.zarr").mkdir()
        before = listing(folder)
        zombie.manifest["steps"]["bfs"] = {}
        with pytest.raises(RunTakenOverError, match="another run has taken this folder over"):
            zombie.write()
        with pytest.raises(RunTakenOverError):
            zombie.event("done", stage="bfs")
        # Nor does it take a store of the other one for its own that is damaged.
        zombie.manifest["steps"]["build"] = {"units": {"build": {"stamp": None, "sha256": ""}}}
        with pytest.raises(RunTakenOverError):
            zombie.remove_damaged(Step("build", "build", {}, {}), ["build"])
        assert listing(folder) == before
    # Nor does it free the lock of the other one.
    assert listing(folder) == before


def test_a_run_that_is_taken_over_ends(
    ooc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, run = small_job(tmp_path, "[retries]\ntimes = 5\nwait_s = 0\n"), tmp_path / "run"
    find = og.bfs

    def taken_over(*given: Any, **options: Any) -> Any:
        found = find(*given, **options)
        (run / "run.lock").write_text(json.dumps({"run": "another"}))
        return found

    monkeypatch.setattr(og, "bfs", taken_over)
    ended = ooc("run", job, "--out", run)
    assert ended.code == 1
    assert "another run has taken this folder over" in ended.err
    said = [(one["event"], one.get("units")) for one in events(run)]
    assert said[-1] == ("begun", ["10"])
    manifest = read_manifest(run)
    assert manifest is not None
    assert manifest["steps"]["bfs"]["units"] == {}


@pytest.mark.parametrize(("times", "code"), [(2, 0), (1, 75)])
def test_what_may_not_come_again_is_tried_again(
    times: int, code: int, ooc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, run = small_job(tmp_path, f"[retries]\ntimes = {times}\nwait_s = 0.01\n"), tmp_path / "run"
    find, left = og.components, [1, 2]

    def lost(*given: Any, **options: Any) -> Any:
        if left:
            left.pop()
            raise ClusterLostError("workers were lost")
        return find(*given, **options)

    monkeypatch.setattr(og, "components", lost)
    done = ooc("run", job, "--out", run)
    assert done.code == code, done
    assert done.out.count("components: workers were lost; again in 0.01 s\n") == times
    failures = [one for one in events(run) if one["event"] == "failed"]
    # The last one ends the run, too.
    assert [one.get("stage") for one in failures] == ["components"] * 2 + [None] * (code != 0)


def test_a_lost_cluster_is_started_again(
    ooc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = '[cluster]\nkind = "local"\n[retries]\ntimes = 1\nwait_s = 0\n'
    job, run = small_job(tmp_path, more), tmp_path / "run"
    happened: list[str] = []

    @contextmanager
    def started(*_: Any) -> Iterator[Literal[False]]:
        happened.append("started")
        yield False
        happened.append("left")

    find = og.components

    def lost(*given: Any, **options: Any) -> Any:
        monkeypatch.setattr(og, "components", find)
        raise ClusterLostError("workers were lost")

    monkeypatch.setitem(workplace._STARTS, LocalCluster, started)
    monkeypatch.setattr(og, "components", lost)
    assert ooc("run", job, "--out", run).code == 0
    assert happened == ["started", "left"] * 2


def test_an_answer_that_breaks_a_rule_ends_the_run(
    ooc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    assert ooc("run", job, "--out", run, "--only", "build").code == 0
    monkeypatch.setattr(og, "validate", _broken)
    done = ooc("run", job, "--out", run)
    assert done.code == 1
    assert "breaks rule" in done.err
    manifest = read_manifest(run)
    assert manifest is not None
    assert not manifest["steps"]["validate"]["done"]
    assert "export" not in manifest["steps"]


def _broken(*_: Any, **__: Any) -> Any:
    raise og.errors.ValidationFailedError("answer of root 10 breaks rule 'x'")
