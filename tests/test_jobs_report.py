"""The command report: runs of a job side by side, what is worse, and the page about them."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import ooc_graph as og
from ooc_graph.errors import ClusterLostError
from ooc_graph.jobs import driver
from ooc_graph.jobs.folder import encoded, read_manifest
from tests.job_runs import STEPS, Command, done_by, skipped, small_job
from tests.unit.test_report_page import Page

KRONECKER = """
[source]
kind = "kronecker"
scale = 6

[[stage]]
kind = "bfs"
keys = 3

[[stage]]
kind = "validate"
of = "bfs"
against = "edges"
"""


def reported(ooc: Command, *runs: Path) -> list[Any]:
    """What is known of some runs."""
    done = ooc("report", *runs, "--json")
    assert done.code == 0, done
    found: list[Any] = json.loads(done.out)
    return found


def changes(run: Any, *, is_worse: bool) -> list[tuple[str, str]]:
    found = (one for one in run["changes"] if one["is_worse"] == is_worse)
    return [(one["stage"], one["text"]) for one in found]


def scaled(run: Path, factors: dict[str, float]) -> None:
    """Multiply the times of all stages by 1, or the factor of a stage, from equal ones."""
    manifest: Any = read_manifest(run)
    for name, entry in manifest["steps"].items():
        for facts in entry["units"].values():
            for key in ("seconds", "elapsed_s"):
                if key in facts:
                    facts[key] = 20.0 * factors.get(name, 1.0)
    (run / "run.json").write_text(encoded(manifest))


def test_slower_stages_are_marked(ooc: Command, tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("first", "second")]
    job = small_job(tmp_path, '[[stage]]\nkind = "report"\n')
    for run in runs:
        assert ooc("run", job, "--out", run).code == 0
        scaled(run, {})
    pages = [(run / "report.html").read_bytes() for run in runs]
    assert pages[0] != pages[1]
    (_, now) = reported(ooc, *runs)
    assert now["changes"] == []
    scaled(runs[1], {"bfs": 1.09, "components": 1.25, "export": 0.5})
    (first, now) = reported(ooc, *runs)
    assert first["changes"] == []
    assert changes(now, is_worse=True) == [("components", "25% slower (median): 20 s → 25 s")]
    assert changes(now, is_worse=False) == []
    # As they are named: the other one is the slower one of export.
    (_, now) = reported(ooc, *reversed(runs))
    assert changes(now, is_worse=True) == [("export", "100% slower (median): 10 s → 20 s")]
    said = ooc("report", *runs).out.splitlines()
    (row,) = [line for line in said if line.startswith("components")]
    assert " ".join(row.split()) == (
        "components done 25 s 25 s 1 component 25% slower (median): 20 s → 25 s"
    )


def test_slowdowns_of_less_than_a_second_are_noise(ooc: Command, tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("first", "second")]
    job = small_job(tmp_path)
    for run in runs:
        assert ooc("run", job, "--out", run).code == 0
        scaled(run, dict.fromkeys(STEPS, 0.1))
    scaled(runs[1], dict.fromkeys(STEPS, 0.1) | {"components": 0.145, "bfs": 0.13})
    (_, now) = reported(ooc, *runs)
    # Of one unit 0.9 s were lost, of two 1.2 s.
    assert changes(now, is_worse=True) == [("bfs", "30% slower (median): 2 s → 2.6 s")]


def test_time_of_calls_that_were_interrupted_counts(
    ooc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    find, now, ends = og.components, [0.0], ["stopped", "failed", "done"]
    monkeypatch.setattr(driver, "perf_counter", lambda: now[0])

    def slow(*words: Any, **options: Any) -> Any:
        now[0] += 10.0
        end = ends.pop(0)
        if end == "stopped":
            signal.raise_signal(signal.SIGTERM)
        if end == "failed":
            raise ClusterLostError("gone")
        found = find(*words, **options)
        if end == "published":
            raise ClusterLostError("gone late")
        return found

    monkeypatch.setattr(og, "components", slow)
    assert [ooc("run", job, "--out", run).code for _ in range(3)] == [143, 75, 0]
    (found,) = reported(ooc, run)
    took = {stage["name"]: stage["seconds"] for stage in found["stages"]}
    assert took == dict.fromkeys(STEPS, 0.0) | {"components": 30.0}
    # What is done again for another reason begins at nothing.
    (run / "components.zarr" / "manifest.json").unlink()
    ends.append("done")
    assert ooc("run", job, "--out", run).code == 0
    assert reported(ooc, run)[0]["stages"][2]["seconds"] == 10.0
    (run / "components.zarr" / "manifest.json").unlink()
    ends.append("published")
    assert [ooc("run", job, "--out", run).code for _ in range(2)] == [75, 0]
    assert reported(ooc, run)[0]["stages"][2]["seconds"] == 10.0


def test_fewer_teps_are_marked(ooc: Command, tmp_path: Path) -> None:
    (tmp_path / "k.toml").write_text(KRONECKER)
    runs = [tmp_path / name for name in ("first", "second")]
    for run in runs:
        assert ooc("run", tmp_path / "k.toml", "--out", run).code == 0
        scaled(run, {})
    scaled(runs[1], {"bfs": 1.25})
    (before, now) = reported(ooc, *runs)
    teps = [run["stages"][1]["teps"] for run in (before, now)]
    assert teps[1] == pytest.approx(teps[0] / 1.25)
    ((stage, text),) = changes(now, is_worse=True)
    assert stage == "bfs"
    assert text.startswith("20% fewer TEPS (harmonic mean): ")


def test_other_results_are_marked_if_nothing_explains_them(ooc: Command, tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("first", "second", "third")]
    words: list[list[str]] = [[], [], ["--set", "source.directed=false"]]
    job = small_job(tmp_path)
    for run, more in zip(runs, words, strict=True):
        assert ooc("run", job, "--out", run, *more).code == 0
        scaled(run, {})
    manifest: Any = read_manifest(runs[1])
    manifest["steps"]["bfs"]["units"]["30"]["sha256"] = "0" * 64
    for name, entry in manifest["steps"].items():
        entry["asked"]["version"] = "0.0.1"
        entry["fingerprint"] = entry["wanted"] = manifest["asked"][name] = name
        if "after" in entry["asked"]:
            entry["asked"]["after"] = {one: one for one in entry["asked"]["after"]}
    (runs[1] / "run.json").write_text(encoded(manifest))
    (_, second, third) = reported(ooc, *runs)
    # A version alone is no reason.
    text = "other result (1 of 2), though neither input nor parameters changed"
    assert second["changes"] == [{"stage": "bfs", "text": text, "is_worse": True}]
    assert changes(third, is_worse=True) == []
    given = changes(third, is_worse=False)
    assert given[0] == ("", "source.directed: True → False")
    assert ("build", "other result, since directed changed") in given
    assert ("bfs", "other result (2 of 2), since directed changed") in given


def test_jobs_that_differ(ooc: Command, tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("first", "second")]
    job = small_job(tmp_path, '[[stage]]\nkind = "sssp"\nroots = [10]\n')
    assert ooc("run", job, "--out", runs[0]).code == 0
    job = small_job(tmp_path, '[[stage]]\nkind = "bfs"\nname = "hops"\nroots = [10]\n')
    words = ("--set", "resources.memory_limit=2GiB")
    assert ooc("run", job, "--out", runs[1], *words).code == 0
    for run in runs:
        scaled(run, {})
    (_, now) = reported(ooc, *runs)
    assert changes(now, is_worse=False) == [
        ("", "resources.memory_limit: not given → 2GiB"),
        ("hops", "was not in the job before"),
        ("sssp", "is no longer in the job"),
    ]
    assert "sssp: is no longer in the job" in ooc("report", *runs).out.splitlines()
    (tmp_path / "other.toml").write_text(job.read_text())
    assert ooc("run", tmp_path / "other.toml", "--out", tmp_path / "other").code == 0
    refused = ooc("report", runs[0], tmp_path / "other")
    assert (refused.code, refused.out) == (2, "")
    assert "runs of 2 jobs (other, small)" in refused.err


def test_runs_that_failed_or_are_gone(ooc: Command, tmp_path: Path) -> None:
    job, runs = small_job(tmp_path), {name: tmp_path / name for name in ("bad", "gone", "going")}
    for name, run in runs.items():
        word = "stage.bfs.roots=[9]" if name == "bad" else "retries.times=0"
        ooc("run", job, "--out", run, "--set", word)
    ooc("run", job, "--out", runs["bad"], "--set", "stage.bfs.roots=[9]")
    for name, pid in (("gone", 2**22 + 1), ("going", 1)):
        path = runs[name] / "events.jsonl"
        lines = path.read_text().splitlines()
        begun = json.loads(lines[0]) | {"pid": pid}
        path.write_text("\n".join([json.dumps(begun), *lines[1:6]]))
    bad, gone, going = reported(ooc, *runs.values())
    assert [one["state"] for one in (bad, gone, going)] == ["failed", "stopped", "running"]
    states = {stage["name"]: stage["state"] for stage in bad["stages"]}
    assert states == dict.fromkeys(STEPS, "new") | {"build": "skipped", "bfs": "failed"}
    ((stage, text),) = changes(bad, is_worse=True)
    assert stage == "bfs"
    assert text.startswith("failed: vertex 9 ")
    assert changes(gone, is_worse=True)[0] == ("", "killed: its process ended without a word")
    assert ooc("report", *runs.values()).code == 0
    page = Page((runs["going"] / "comparison.html").read_text())
    rows = page.texts["td"]
    assert {"✗ failed", "✗ stopped", "… running"} <= set(rows)
    assert ooc("report", runs["bad"]).code == 0
    words = Page((runs["bad"] / "comparison.html").read_text()).texts
    assert "✗ failed" in words["p"]
    assert any(text.startswith("▲ failed: vertex 9 ") for text in words["strong"])


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_a_folder_that_is_no_run(ooc: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    refused = ooc("report", tmp_path / name)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.count("\n") == 1
    assert "holds no run of a job" in refused.err


def test_a_page_that_cannot_be_written(ooc: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert ooc("run", small_job(tmp_path), "--out", run).code == 0
    for page, why in (("none/page.html", "no such folder"), ("run", "is a folder")):
        refused = ooc("report", run, "--out", tmp_path / page)
        assert (refused.code, refused.out) == (2, "")
        assert why in refused.err


def test_runs_that_cannot_be_read(ooc: Command, tmp_path: Path) -> None:
    job, runs = small_job(tmp_path), [tmp_path / name for name in ("1", "2", "3", "4")]
    for run in (runs[0], runs[1], runs[3]):
        assert ooc("run", job, "--out", run).code == 0
        scaled(run, {"bfs": 2.0} if run == runs[3] else {})
    (runs[1] / "run.json").write_text("{}")
    runs[2].mkdir()
    found = reported(ooc, *runs)
    assert [one["state"] for one in found] == ["done", "damaged", "damaged", "done"]
    assert [one["job"] for one in found] == ["small"] * 4
    assert f"{runs[1] / 'run.json'}: is damaged" in found[1]["error"]
    assert changes(found[2], is_worse=True) == [("", found[2]["error"])]
    # Each is compared with the last one before it that can be read.
    assert changes(found[3], is_worse=True) == [("bfs", "100% slower (median): 20 s → 40 s")]
    said = ooc("report", *runs).out.splitlines()
    assert said[:2] == [one["error"] for one in found[1:3]]
    page = Page((runs[3] / "comparison.html").read_text())
    assert page.texts["h2"][0] == "What changed since 1"
    assert page.texts["td"].count("✗ damaged") == 2
    # A folder that is no run stays as it is, so that a job can still run there.
    done = ooc("report", *runs[:3])
    assert (done.code, list(runs[2].iterdir())) == (0, [])
    assert done.out.splitlines()[-1] == f"report: {runs[0] / 'comparison.html'}"
    for words in (runs[1:2], runs[1:3]):
        refused = ooc("report", *words)
        assert refused.code in (1, 2)
        assert (refused.out, refused.err.count("\n")) == ("", 1)


def test_the_page(ooc: Command, tmp_path: Path) -> None:
    job, runs = small_job(tmp_path), [tmp_path / "runs" / name for name in ("a b", "c&d")]
    for run in runs:
        assert ooc("run", job, "--out", run).code == 0
        scaled(run, {})
    scaled(runs[1], {"export": 2.0})
    out = tmp_path / "pages" / "page.html"
    out.parent.mkdir()
    assert ooc("report", *runs, "--out", out).out.splitlines()[-1] == f"report: {out}"
    text = out.read_text()
    assert ooc("report", *runs, "--out", out).code == 0
    assert out.read_text() == text
    page = Page(text)
    assert page.texts["h1"] == ["small"]
    assert page.texts["h2"][0] == "What changed since a b"
    assert page.texts["strong"] == ["▲ 100% slower (median): 20 s → 40 s"]
    assert page.texts["h3"] == ["Time per stage", *STEPS]
    # The last run comes first.
    heads = page.texts["th"]
    assert heads[heads.index("c&d") : heads.index("c&d") + 2] == ["c&d", "a b"]
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.attributes}
    assert "http" not in text
    links = [found["href"] for tag, found in page.attributes if tag == "a"]
    assert len(links) == 4 + 4
    for link in links:
        assert (out.parent / unquote(str(link))).exists()
        assert not str(link).startswith("/")
    assert ooc("report", *runs).code == 0
    assert (runs[1] / "comparison.html").is_file()
    # It is in nobody's way.
    assert ooc("run", job, "--out", runs[1]).out.count("skipped") == len(STEPS)


def test_a_stage_writes_the_page(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path, '[[stage]]\nkind = "report"\n'), tmp_path / "run"
    assert ooc("run", job, "--out", run).code == 0
    page = Page((run / "report.html").read_text())
    assert page.texts["h3"] == ["Time per stage"]
    assert "✓ done" in page.texts["p"]
    assert page.texts["th"][-len(STEPS) :] == list(STEPS)
    assert page.texts["td"].count("✓ done") == len(STEPS)
    links = [found["href"] for tag, found in page.attributes if tag == "a"]
    assert all((run / str(link)).exists() for link in links)
    assert ooc("report", run).code == 0
    # Once, whatever the command writes; and again if anything before it is.
    assert skipped(ooc("run", job, "--out", run)) == len(STEPS) + 1
    words = ("--out", run, "--set", "stage.bfs.roots=[10]")
    assert done_by(ooc("run", job, *words))[-1] == "report"
    page = Page((run / "report.html").read_text())
    assert page.texts["td"].count("✓ skipped") == 2
    (run / "report.html").unlink()
    assert done_by(ooc("run", job, *words)) == ["report"]


def test_a_page_is_not_about_what_follows_it(ooc: Command, tmp_path: Path) -> None:
    more = "".join(f'[[stage]]\nkind = "report"\nname = "{name}"\n' for name in ("a", "b"))
    run = tmp_path / "run"
    assert ooc("run", small_job(tmp_path, more), "--out", run).code == 0
    for name, before in {"a": [], "b": ["a"]}.items():
        page = Page((run / f"{name}.html").read_text())
        assert page.texts["th"][-len(STEPS) - len(before) :] == [*STEPS, *before]
        assert "✓ done" in page.texts["p"]


def test_nothing_is_about_the_answers_of_a_report(ooc: Command, tmp_path: Path) -> None:
    more = '[[stage]]\nkind = "report"\n[[stage]]\nkind = "export"\nname = "x"\nof = "report"\n'
    refused = ooc("run", small_job(tmp_path, more), "--out", tmp_path / "run")
    assert refused.code == 2
    assert "no earlier stage with answers is called report" in refused.err
