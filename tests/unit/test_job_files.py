"""Job files: what they may say, what is wrong with them and where, and what comes along."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ooc_graph.edges import FORMATS
from ooc_graph.errors import InputError, UsageError
from ooc_graph.jobs.model import FilesSource, Job
from ooc_graph.jobs.reading import read_job
from ooc_graph.jobs.shipped import EXAMPLES, SCHEMA, example_of, schema_text
from ooc_graph.jobs.toml_text import has, line_of, statements_of, to_toml

KRONECKER = '[source]\nkind = "kronecker"\nscale = 5\n'
UPLOAD = KRONECKER + '[[stage]]\nkind = "upload"\nof = "{of}"\nto = "{to}"\n'


def job_of(folder: Path, text: str, *settings: str) -> Job:
    (folder / "night.toml").write_text(text)
    return read_job(folder / "night.toml", settings)


def refusal(folder: Path, text: str, *settings: str) -> list[str]:
    """Lines of the error, without the folder."""
    with pytest.raises(InputError) as caught:
        job_of(folder, text, *settings)
    assert caught.value.exit_code == 2
    return str(caught.value).replace(f"{folder}/", "").splitlines()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            KRONECKER + "scal = 3\n",
            "night.toml:4: source.scal: unknown key; did you mean scale?",
        ),
        (
            KRONECKER + "# more\n\n[sources]\nx = 1\n",
            "night.toml:6: sources: unknown key; did you mean source?",
        ),
        (
            KRONECKER + "[retries]\nzzz = 1\n",
            "night.toml:5: retries.zzz: unknown key; there are times, wait_s",
        ),
        (
            '[source]\nkind = "kronecker"\nscale = "big"\n',
            "night.toml:3: source.scale: expected an integer, found 'big'",
        ),
        (
            '[source]\nkind = "kronecker"\nscale = true\n',
            "night.toml:3: source.scale: expected an integer, found true",
        ),
        (
            '[source]\nkind = "kronecker"\nscale = 41\n',
            "night.toml:3: source.scale: expected at most 40, found 41",
        ),
        ('[source]\nkind = "kronecker"\n', "night.toml:1: source.scale: is missing"),
        ("name = 'x'\n", "night.toml: source: is missing"),
        ('[source]\nkind = "kronecer"\n', "did you mean kronecker?"),
        ("[source]\nscale = 3\n", "night.toml:1: source.kind: is missing; there are kronecker, "),
        ("source = 3\n", "night.toml:1: source: expected a table, found 3"),
        (
            '[source]\nkind = "files"\npath = 3\n',
            "night.toml:3: source.path: expected a string or a list, found 3",
        ),
        ('[source]\nkind = "files"\npath = ""\n', "source.path: an empty word is no path"),
        (
            KRONECKER + '[[stage]]\nkind = "bfs"\nroots = [\n 1,\n -1,\n]\n',
            "night.toml:6: stage[0].roots[1]: expected at least 0, found -1",
        ),
        (
            KRONECKER + '[[stage]]\nkind = "pagerank"\npersonalization = []\n',
            "night.toml:6: stage[0].personalization: "
            "expected a list of 1 or more or a string, found []",
        ),
        (
            KRONECKER + '[[stage]]\nkind = "bfs"\nroots = [4, 4]\n',
            "night.toml:6: stage[0].roots: vertex 4 is given twice",
        ),
        (
            KRONECKER + '[[stage]]\nkind = "bfs"\n',
            "night.toml:4: stage[0]: give one of roots, roots_file, keys, not none",
        ),
        (
            KRONECKER + '[[stage]]\nkind = "bfs"\nroots = [4]\nkeys = 3\n',
            "night.toml:4: stage[0]: give one of roots, roots_file, keys, not roots and keys",
        ),
        (
            KRONECKER + '[[stage]]\nkind = "components"\nname = "../up"\n',
            "night.toml:6: stage[0].name: expected letters, digits, - and _, found '../up'",
        ),
        (
            KRONECKER + '[[stage]]\nkind = "components"\nname = "graph"\n',
            "night.toml:6: stage[0].name: a stage cannot be called graph; give another name",
        ),
        (
            KRONECKER + '[[stage]]\nkind = "components"\n[[stage]]\nkind = "components"\n',
            "night.toml:6: stage[1].name: two stages are called components; "
            "give one of them another name",
        ),
        (
            KRONECKER
            + '[[stage]]\nkind = "components"\n[[stage]]\nkind = "export"\nof = "compo"\n',
            "night.toml:8: stage[1].of: no earlier stage with answers is called compo; "
            "did you mean components?",
        ),
        (
            # A later one is none that answers can be of.
            KRONECKER
            + '[[stage]]\nkind = "export"\nof = "bfs"\n[[stage]]\nkind = "bfs"\nkeys = 1\n',
            "stage[0].of: no earlier stage with answers is called bfs; there are none",
        ),
        (
            KRONECKER + '[[stage]]\nkind = "many"\nkernel = "apsp"\n'
            '[[stage]]\nkind = "validate"\nof = "many"\n',
            "night.toml:9: stage[1].of: answers from many sources cannot be validated; "
            "validate searches from roots",
        ),
        (
            KRONECKER + '[[stage]]\nkind = "pagerank"\n'
            '[[stage]]\nkind = "validate"\nof = "pagerank"\nagainst = "edges"\n',
            "night.toml:9: stage[1].against: PageRank is validated against the graph, which has "
            "each arc once",
        ),
        (
            KRONECKER + '[[stage]]\nkind = "pagerank"\nalpha = 1.5\n',
            "night.toml:6: stage[0].alpha: expected at most 1.0, found 1.5",
        ),
        (
            KRONECKER + '[[stage]]\nkind = "pagerank"\npersonalization = 3\n',
            "night.toml:6: stage[0].personalization: expected a list or a string, found 3",
        ),
        (
            KRONECKER + '[[stage]]\nkind = "pagerank"\npersonalization = [3, 4, 3]\n',
            "night.toml:6: stage[0].personalization: vertex 3 is given twice",
        ),
        (
            KRONECKER + '[[stage]]\nkind = "many"\nkernel = "apsp"\n'
            '[[stage]]\nkind = "export"\nof = "many"\n',
            "stage[1].of: distances of many sources are no table; give that stage reduce",
        ),
        (
            KRONECKER + '[[stage]]\nkind = "many"\nkernel = "multi_source_bfs"\nparents = true\n',
            "night.toml:4: stage[0]: BFS from many sources gives no parents",
        ),
        (
            KRONECKER + '[[stage]]\nkind = "many"\nkernel = "apsp"\nbins = 3\n',
            "night.toml:4: stage[0]: bins and bin_width are for reduce = 'histogram'",
        ),
        (
            KRONECKER + 'weighted = false\n[[stage]]\nkind = "sssp"\nkeys = 1\n',
            "night.toml:6: stage[0].kind: needs weights, and the source is said to have none",
        ),
        (
            '[source]\nkind = "files"\npath = "a"\n[[stage]]\nkind = "bfs"\nkeys = 1\n',
            "night.toml:6: stage[0].keys: search keys are for a source of kind kronecker; "
            "give roots or roots_file",
        ),
        (
            UPLOAD.format(of="bfs", to="s3://bucket/x"),
            "night.toml:6: stage[0].of: no earlier stage called bfs writes anything; "
            "there are build",
        ),
        (
            KRONECKER + '[[stage]]\nkind = "components"\n'
            '[[stage]]\nkind = "validate"\nof = "components"\n'
            '[[stage]]\nkind = "upload"\nof = "validate"\nto = "s3://bucket"\n',
            "night.toml:11: stage[2].of: no earlier stage called validate writes anything; "
            "there are build, components",
        ),
        (
            '[source]\nkind = "store"\npath = "a"\n'
            '[[stage]]\nkind = "upload"\nof = "build"\nto = "s3://bucket"\n',
            "night.toml:6: stage[0].of: no earlier stage called build writes anything; "
            "there are none",
        ),
        *(
            (
                UPLOAD.format(of="build", to=to),
                f"night.toml:7: stage[0].to: {shown}: expected the URL of a folder in an object "
                "store (s3://, gs://, az://, abfs://)",
            )
            for to, shown in {
                "https://host/x": "https://host/x",
                "http://host/x": "http://host/x",
                "results": "results",
                "file:///results": "file:///results",
                "s3://": "s3://",
            }.items()
        ),
        (
            UPLOAD.format(of="build", to="s3://key:S3cret@bucket/x"),
            "night.toml:7: stage[0].to: s3://bucket/x: a URL in a job has no user, password or "
            "query",
        ),
        (KRONECKER + '[[stage]]\nkind = "upload"\nof = "build"\n', "stage[0].to: is missing"),
        (
            '[source]\nkind = "store"\npath = "a"\n[build]\ncompress = true\n',
            "night.toml:4: build: the source is a store, of which nothing is built",
        ),
        (
            '[source]\nkind = "store"\npath = "a"\n[[stage]]\nkind = "components"\n'
            '[[stage]]\nkind = "validate"\nof = "components"\nagainst = "edges"\n',
            "night.toml:9: stage[1].against: the source is a store: there are no edges, "
            "validate against the graph",
        ),
        (
            KRONECKER + '[[stage]]\nkind = "report"\n[[stage]]\nkind = "components"\n'
            '[[stage]]\nkind = "export"\nof = "components"\n'
            '[[stage]]\nkind = "report"\nname = "page"\n',
            "night.toml:5: stage[0].kind: a report is about the stages before it; "
            "put it after export",
        ),
        (
            KRONECKER + '[resources]\nmemory_limit = "much"\n',
            "night.toml:4: resources: memory_limit 'much': give bytes or a size such as",
        ),
        (
            KRONECKER + '[resources]\ndevice = "cpu"\ndevice_memory = "4GiB"\n',
            "night.toml:4: resources: device_memory and host_memory are for CUDA devices: "
            "use device cuda, or memory_limit for the CPU",
        ),
        (
            KRONECKER + '[resources]\ndevice = "gpu"\n',
            "night.toml:5: resources.device: expected 'auto', 'cpu' or 'cuda', found 'gpu'",
        ),
        (
            KRONECKER + '[stage]\nkind = "bfs"\nkeys = 1\n',
            "night.toml:4: stage: each stage begins with [[stage]], in two brackets",
        ),
        (
            KRONECKER + "[retries]\nwait_s = inf\n",
            "night.toml:5: retries.wait_s: expected at most 86400.0, found inf",
        ),
        (
            KRONECKER + '[cluster]\nkind = "cloud"\n',
            "night.toml:5: cluster.kind: 'cloud' is unknown; there are local, address, slurm",
        ),
        (
            KRONECKER + '[cluster]\nkind = "slurm"\njobs = 2\ncores = 4\nmemory = "much"\n',
            "night.toml:4: cluster: memory 'much': give bytes or a size such as",
        ),
    ],
)
def test_a_mistake_is_one_line(text: str, said: str, tmp_path: Path) -> None:
    (line,) = refusal(tmp_path, text)
    assert said in line


def test_a_library_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    (line,) = refusal(tmp_path, UPLOAD.format(of="build", to="gs://bucket/x"))
    assert line == (
        "night.toml:7: stage[0].to: gs://bucket/x: gs:// needs gcsfs; install it with: "
        "pip install 'ooc-graph[remote]'"
    )


def test_every_mistake_has_a_line_in_their_order(tmp_path: Path) -> None:
    text = (
        KRONECKER.replace("5", "'x'") + "scal = 1\n[[stage]]\nkind = 'bsf'\n[retries]\ntimes = -1\n"
    )
    lines = refusal(tmp_path, text, "retries.wait_s=soon")
    assert lines == [
        "--set retries.wait_s=soon: retries.wait_s: expected a number, found 'soon'",
        "night.toml:3: source.scale: expected an integer, found 'x'",
        "night.toml:4: source.scal: unknown key; did you mean scale?",
        "night.toml:6: stage[0].kind: 'bsf' is unknown; did you mean bfs?",
        "night.toml:8: retries.times: expected at least 0, found -1",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [("[source]\nkind = \n", 2), ("a = 1\nb = [1,\n", 2), ("[[stage]]\n[stage]\n", 2)],
)
def test_what_is_no_toml_has_its_line(text: str, line: int, tmp_path: Path) -> None:
    (said,) = refusal(tmp_path, text)
    assert said.startswith(f"night.toml:{line}: is not TOML: ")
    assert "(at " not in said


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml: cannot be read"):
        read_job(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'\n")
    with pytest.raises(InputError, match=r"latin\.toml: cannot be read \(is not UTF-8\)"):
        read_job(tmp_path / "latin.toml")


STAGES = (
    KRONECKER
    + """
[[stage]]
kind = "bfs"
keys = 3
[[stage]]
kind = "bfs"
name = "more"
roots = [1]
"""
)


def test_settings_replace_and_add(tmp_path: Path) -> None:
    job: Any = job_of(
        tmp_path,
        STAGES,
        "source.scale=7",
        "stage.bfs.keys=2",
        "stage.more.roots=[4, 5]",
        "resources.memory_limit=4GiB",
        "retries.times=2",
        "name=other",
    )
    assert (job.source.scale, job.stage[0].keys, job.stage[1].roots) == (7, 2, [4, 5])
    assert (job.resources.memory_limit, job.retries.times, job.name) == ("4GiB", 2, "other")
    assert job_of(tmp_path, STAGES).name == "night"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("source.scale", "give TABLE.KEY=VALUE"),
        ("=3", "give TABLE.KEY=VALUE"),
        ("source..scale=3", "give TABLE.KEY=VALUE"),
        ("stage.mor.keys=3", "no stage is called mor; did you mean more?"),
        ("stage.more=3", "stage[1] is a table; name a key of it"),
        ("source.scale.more=3", "source.scale is a value, not a table"),
    ],
)
def test_settings_that_are_none(setting: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        job_of(tmp_path, STAGES, setting)
    assert str(caught.value).startswith(f"--set {setting}: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("source.sale=3", "source.sale: unknown key; did you mean scale?"),
        ("sorce.x=3", "sorce: unknown key; did you mean source?"),
        ("stage.bfs.keys=x", "stage[0].keys: expected an integer, found 'x'"),
        ("source.scale=0", "source.scale: expected at least 1, found 0"),
    ],
)
def test_mistakes_in_settings(setting: str, said: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, STAGES, setting) == [f"--set {setting}: {said}"]


def test_paths_are_from_the_folder_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs").mkdir()
    monkeypatch.chdir(tmp_path)
    text = (
        '[source]\nkind = "files"\npath = ["a.csv", "/b.csv"]\n'
        '[[stage]]\nkind = "bfs"\nroots_file = "../roots"\n'
        '[cluster]\nkind = "address"\naddress = "tls://h:1"\ntls = "ca,cert,/key"\n'
    )
    job: Any = job_of(Path("jobs"), text)
    assert job.source.path == [f"{tmp_path}/jobs/a.csv", "/b.csv"]
    assert job.stage[0].roots_file == f"{tmp_path}/roots"
    assert job.cluster.tls == f"{tmp_path}/jobs/ca,{tmp_path}/jobs/cert,/key"


def test_column_0_may_have_the_weights(tmp_path: Path) -> None:
    text = (
        '[source]\nkind = "files"\npath = "a"\nweight = {}\n[[stage]]\nkind = "sssp"\nroots = [1]\n'
    )
    assert job_of(tmp_path, text.format(0)).stage
    for word in ("false", '"none"'):
        (said,) = refusal(tmp_path, text.format(word))
        assert "needs weights, and the source is said to have none" in said


WRITTEN = """# 1
name = "x"  # 2
a.b.c = 3
list = [
  1,  # 5
  "# ]",
]
text = '''
[source]
'''

inline = {x = 1, "y z" = 2}
[source]
kind = "k"
[[stage]]

[[stage]]
"of" = 1
  [stage.deep]
x = 1
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (["name"], 2),
        (["a", "b", "c"], 3),
        (["a", "b"], 3),
        (["list"], 4),
        (["list", 1], 4),
        (["list", 2], None),
        (["text"], 8),
        (["inline", "y z"], 12),
        (["source"], 13),
        (["source", "kind"], 14),
        (["stage"], 15),
        (["stage", 1], 17),
        (["stage", 1, "of"], 18),
        (["stage", 1, "deep", "x"], 20),
        (["stage", 0, "of"], None),
        (["none"], None),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_line_of_a_key(path: list[str | int], line: int | None, end: str) -> None:
    assert line_of(statements_of(WRITTEN.replace("\n", end)), path) == line
    assert has(tomllib.loads(WRITTEN), path) == (line is not None)


KEYS = st.from_regex(r"[A-Za-z0-9_-]+", fullmatch=True)
PLAIN = st.text() | st.integers() | st.booleans() | st.floats(allow_nan=False)
TABLES = st.dictionaries(KEYS, PLAIN | st.lists(PLAIN), max_size=4)


@given(st.dictionaries(KEYS, PLAIN | TABLES | st.lists(TABLES, min_size=1, max_size=3), max_size=4))
def test_written_toml_is_read_as_it_was(tables: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(tables)) == tables


def test_the_schema_that_comes_along_is_current() -> None:
    schema = schema_text()
    assert SCHEMA.read_text() == schema
    assert json.loads(schema) == Job.model_json_schema()


def test_every_key_is_described() -> None:
    for name, table in Job.model_json_schema()["$defs"].items():
        assert table["description"], name
        for key, facts in table["properties"].items():
            assert key == "kind" or "description" in facts, f"{name}.{key}"
            assert table["additionalProperties"] is False


def test_formats_are_those_there_are() -> None:
    schema = FilesSource.model_json_schema()["properties"]["format"]["anyOf"][0]
    assert schema["enum"] == list(FORMATS)


def test_a_job_has_the_name_of_its_file(tmp_path: Path) -> None:
    """Jobs of other names have other folders of their runs."""
    found = []
    for stem in ("日本", "中国", "each night", "été"):
        (tmp_path / f"{stem}.toml").write_text(KRONECKER)
        found.append(read_job(tmp_path / f"{stem}.toml").name)
    assert found == ["_65e5_672c", "_4e2d_56fd", "each_night", "_e9t_e9"]


def test_examples_come_along() -> None:
    names = sorted(path.stem for path in EXAMPLES.glob("*.toml"))
    assert names == ["graph500", "nightly", "road_distances", "social_reach"]
    for name in names:
        assert read_job(EXAMPLES / f"{name}.toml").name == name
        assert example_of(name) == (EXAMPLES / f"{name}.toml").read_text()
    with pytest.raises(UsageError, match="did you mean graph500"):
        example_of("graph50")
