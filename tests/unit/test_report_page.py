"""The page: all sections, nothing loaded from elsewhere, sound markup, missing parts."""

from __future__ import annotations

import dataclasses
import json
import re
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest

from ooc_graph.report.data import (
    DATA_VERSION,
    DegreeHistogram,
    EnergyRecord,
    LevelRecord,
    MemorySample,
    ReportData,
    SearchRecord,
    Stage,
    Validation,
    write_report_data,
)
from ooc_graph.report.page import page_html, write_page

VOID = {"meta", "br", "hr", "img", "input", "link", "wbr"}
DRAWINGS = [
    "Degree distribution",
    "BFS: time per search",
    "BFS: TEPS per search",
    "SSSP: time per search",
    "SSSP: TEPS per search",
    "BFS: vertices per level",
    "BFS: arcs examined per level",
    "SSSP: vertices per phase",
    "SSSP: arcs examined per phase",
    "Time per stage",
    "Memory over time",
]


def search(kernel: str, number: int) -> SearchRecord:
    levels = (
        LevelRecord(1, 20, "push"),
        LevelRecord(20, 500 + number, "pull"),
        LevelRecord(number, 30, "push"),
    )
    time_s = 0.01 * (1 + number % 7)
    return SearchRecord(kernel, 100 + number, time_s, 160_000, 900, 0.02, levels[: 2 + number % 2])


@pytest.fixture(scope="module")
def data() -> ReportData:
    kernels = ("bfs", "sssp")
    return ReportData(
        title="Graph500 <scale 14>",
        date="2031-05-06 07:08 UTC",
        command="ooc-graph graph500 --scale 14 && echo done",
        parameters={"scale": 14, "seeds": "2, 3", "validate": True, "limit": None},
        graph={"vertices": 16384},
        machine={"CPU": "a CPU", "load": 0.25},
        packages={"numpy": "2.4"},
        graph_arcs=10_000,
        searches=tuple(search(kernel, number) for kernel in kernels for number in range(64)),
        stages=(Stage("generate", 0.0, 1.0), Stage("build", 1.0, 4.0), Stage("search", 4.0, 9.0)),
        memory=tuple(MemorySample(t / 20, 200_000_000 + 1_000_000 * (t % 50)) for t in range(180)),
        memory_limit_bytes=256 << 20,
        memory_baseline_bytes=200_000_000,
        degree_histogram=DegreeHistogram((0, 1, 2, 300), (7, 500, 90, 1)),
        output_block="SCALE:                          14\n",
        validation=Validation("passed", "128 answers checked"),
        parts={kernel: {"search": 0.5, "validation": 1.5} for kernel in kernels},
    )


class Page(HTMLParser):
    """Collect ids and the text of headings; fail where tags do not balance."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self._attributes(tag, dict(attrs))
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag, attrs):
        self._attributes(tag, dict(attrs))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data):
        if self.open:
            self.texts[self.open[-1]][-1] += data

    def _attributes(self, tag, found):
        self.attributes.append((tag, found))
        if "id" in found:
            self.ids.append(found["id"])
        if "href" in found:
            self.references.append(found["href"])
        for value in found.values():
            self.references += re.findall(r"url\((#[^)]*)\)", value or "")


@pytest.fixture(scope="module")
def html(data) -> str:
    return page_html(data)


@pytest.fixture(scope="module")
def page(html) -> Page:
    return Page(html)


def test_all_sections_and_drawings(page):
    assert page.texts["title"][0] == "Graph500 <scale 14>"
    assert page.texts["h2"] == [
        "Speed",
        "Graph and levels",
        "Time and memory",
        "Time by part",
        "Circumstances",
        "Graph500 output",
        "Searches",
        "How to reproduce",
    ]
    assert sorted(page.texts["h3"]) == sorted(DRAWINGS)
    assert page.texts["caption"][1:5] == ["Parameters", "Graph", "Machine", "Software"]
    assert page.texts["pre"] == [
        "SCALE:                          14\n",
        "ooc-graph graph500 --scale 14 && echo done",
    ]


def test_parts_have_their_share(page):
    assert page.texts["td"][:6] == ["0.50 (25 %)", "1.50 (75 %)", "2.00"] * 2


def test_headline(page, data):
    bfs = [s for s in data.searches if s.kernel == "bfs"]
    mean = len(bfs) / sum(s.time_s / s.edges for s in bfs)
    assert page.texts["dd"][0].startswith(f"{mean / 1e6:.4g} ")
    assert page.texts["dt"][0] == "BFS, harmonic mean of 64 searches"
    assert any("✓ All answers valid" in text for text in page.texts["p"])


def test_loads_nothing(html, page):
    assert "http" not in html
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.attributes}
    assert not any("src" in found for _, found in page.attributes)
    assert "@import" not in html


def test_ids_are_unique_and_references_resolve(page):
    assert len(page.ids) == len(set(page.ids)) > 0
    assert {reference[1:] for reference in page.references} <= set(page.ids)
    assert all(reference.startswith("#") for reference in page.references)


def test_drawings_are_labelled_and_take_the_page_s_colours(html, page):
    drawings = [found for tag, found in page.attributes if tag == "svg"]
    assert len(drawings) == len(DRAWINGS)
    assert all(found["role"] == "img" and found["aria-label"] for found in drawings)
    assert "var(--bfs)" in html
    assert "#0102" not in html
    used = set(re.findall(r"var\((--\w+)\)", html))
    assert used <= set(re.findall(r"(--\w+):", html))


def test_table_has_a_row_for_every_search(page):
    assert page.texts["caption"][-1].startswith("Every timed search")
    assert page.texts["th"].count("BFS") == page.texts["th"].count("SSSP") == 65
    assert "160,000" in page.texts["td"]


def test_same_data_same_bytes_and_no_global_state(data, html, tmp_path):
    before = dict(mpl.rcParams)
    write_page(tmp_path / "page.html", data)
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == html
    assert dict(mpl.rcParams) == before
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(ReportData)][1:])
def test_any_part_may_be_absent(data, field):
    default = getattr(ReportData("x"), field)
    few = dataclasses.replace(data, searches=data.searches[:2])
    Page(page_html(dataclasses.replace(few, **{field: default})))


def test_nothing_but_a_title():
    page = Page(page_html(ReportData("empty")))
    assert "svg" not in page.texts
    assert "Neither stages nor memory were recorded." in page.texts["p"]


def test_own_graph_without_edge_counts():
    searches = tuple(SearchRecord("bfs", 7, 0.1 * (n + 1)) for n in range(3))
    page = Page(page_html(ReportData("own", searches=searches)))
    assert page.texts["h3"] == ["BFS: time per search"]
    assert page.texts["dt"] == ["BFS, median of 3 searches"]
    assert page.texts["dd"][0] == "200 "


def test_one_search_and_a_long_thin_graph():
    levels = tuple(LevelRecord(3, 9) for _ in range(600))
    searches = (SearchRecord("bfs", 1, 0.5, 10, 600, None, levels),)
    page = Page(page_html(ReportData("road", searches=searches)))
    assert page.texts["h3"] == ["BFS: vertices per level", "BFS: arcs examined per level"]


def test_phases_have_names_and_no_frontier():
    names = ("push", "pull", "finish", "parents")
    levels = tuple(LevelRecord(None, 10 * (n + 1), name) for n, name in enumerate(names))
    data = ReportData("phases", searches=(SearchRecord("sssp", 1, 0.5, levels=levels),))
    page = Page(page_html(data))
    assert page.texts["h3"] == ["SSSP: arcs examined per phase"]
    drawn = page_html(data)
    for name in names:
        assert len(re.findall(rf">{name}</text>", drawn)) == 1, name


@pytest.mark.parametrize(("limit_bytes", "drawn"), [(3_000_000, True), (20_000_000, False)])
def test_a_far_limit_does_not_press_the_memory_flat(limit_bytes, drawn):
    memory = (MemorySample(0.0, 1_000_000), MemorySample(10.0, 2_000_000))
    page = page_html(ReportData("m", memory=memory, memory_limit_bytes=limit_bytes))
    assert ("lies beyond the drawing" in page) is not drawn
    assert (">limit</text>" in page) is drawn


def test_a_failed_validation_shows():
    failed = Validation("failed", "rule 5 at vertex 17 <b>")
    page = Page(page_html(ReportData("bad", validation=failed)))
    assert any("✗ Validation failed" in text for text in page.texts["p"])
    assert "rule 5 at vertex 17 <b>" in page.texts["p"]


ENERGY = (
    EnergyRecord("bfs", 640, 12.5, {"GPU <0>": 5000.5, "CPU": 1249.5}, 500.0, 1234.5678),
    EnergyRecord("sssp", 64, 3.0, {"GPU <0>": 1200.0}, 400.0, None, "measured over 3.0 s"),
    EnergyRecord("cc", 64, 11.0, reason="NVML cannot be used: <none>"),
)


def test_energy_has_a_table_and_a_headline(data, page):
    assert "Energy" not in page.texts["h2"]
    with_energy = Page(page_html(dataclasses.replace(data, energy=ENERGY)))
    assert with_energy.texts["h2"].count("Energy") == 1
    figures = dict(zip(with_energy.texts["dt"], with_energy.texts["dd"], strict=True))
    assert figures["BFS, over average power"] == "1,235 "
    assert "MTEPS/W" in with_energy.texts["small"]
    assert len([name for name in figures if "power" in name]) == 1
    cells = with_energy.texts["td"]
    for cell in ("6,250.0", "500.0", "1,234.6", "GPU <0>: 5,000.5 J. CPU: 1,249.5 J. "):
        assert cell in cells, cell
    assert "GPU <0>: 1,200.0 J. Measured over 3.0 s." in cells
    assert "NVML cannot be used: <none>." in cells


def out_of_the_store(data):
    """The same with arcs in the store: each search waited for a quarter of its reading."""
    searches = [
        dataclasses.replace(
            one, read_bytes=5_000_000, fetched_rows=70, reading_s=one.time_s / 2, waited_s=0.00125
        )
        for one in data.searches
    ]
    facts = {"blocks in flight, on average": 2.625, "disk: had the page cache most of that": True}
    tiers = dict.fromkeys(("bfs", "sssp"), facts)
    return dataclasses.replace(data, searches=tuple(searches), tiers=tiers)


def test_waiting_for_the_store_is_drawn(data, page):
    assert not [heading for heading in page.texts["h3"] if "waiting" in heading]
    shown = Page(page_html(out_of_the_store(data)))
    for kernel in ("BFS", "SSSP"):
        assert f"{kernel}: waiting for the store" in shown.texts["h3"]
        assert f"Memory and store: {kernel}" in shown.texts["caption"]
    assert [text for text in shown.texts["figcaption"] if "1.25 ms of it waiting" in text]
    assert shown.texts["td"].count("0.001250") == len(data.searches)
    assert {"2.625", "yes"} <= set(shown.texts["td"])
    # Of searches in memory, and of one that is not known, there is nothing to draw.
    for some in ({"waited_s": None}, {"reading_s": None}):
        searches = [dataclasses.replace(one, **some) for one in out_of_the_store(data).searches]
        told = Page(page_html(dataclasses.replace(data, searches=tuple(searches))))
        assert not [heading for heading in told.texts["h3"] if "waiting" in heading]


def test_data_are_written_as_json(data, tmp_path):
    path = tmp_path / "report.json"
    for one in (data, dataclasses.replace(data, energy=ENERGY), out_of_the_store(data)):
        write_report_data(path, one)
        written = json.loads(path.read_text())
        assert written.pop("data_version") == DATA_VERSION
        # JSON has lists where the data have tuples.
        assert written == json.loads(json.dumps(dataclasses.asdict(one)))
    assert written["searches"][0]["levels"][0]["arcs"] == data.searches[0].levels[0].arcs


def test_histogram_of_arrays_can_be_written(tmp_path):
    histogram = DegreeHistogram.of(np.array([1, 4], np.uint32), np.array([9, 2**40]))
    assert histogram == DegreeHistogram((1, 4), (9, 2**40))
    write_report_data(tmp_path / "report.json", ReportData("x", degree_histogram=histogram))
    written = json.loads((tmp_path / "report.json").read_text())
    assert written["degree_histogram"] == {"degree": [1, 4], "count": [9, 2**40]}
    with pytest.raises(ValueError, match="degrees for"):
        DegreeHistogram((1, 2), (3,))


def test_dots_that_would_cover_one_another_are_dropped_and_no_others():
    many = DegreeHistogram(tuple(range(1, 30_001)), (1,) * 30_000)
    few = DegreeHistogram((1, 2, 3, 1000), (9, 5, 1, 1))
    counts = []
    for histogram in (many, few):
        page = page_html(ReportData("x", degree_histogram=histogram))
        drawing = page[page.index("degrees-line2d") :]
        counts.append(len(re.findall(r"<use [^>]*var\(--other\)", drawing)))
    assert counts[1] == 4
    assert 300 < counts[0] < 700


def test_the_user_s_own_style_changes_nothing(data, html):
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert page_html(data) == html
        assert mpl.rcParams["font.size"] == 30


def test_names_are_text_and_not_markup():
    stages = (Stage("$sort_1$ <b> & $", 0.0, 10.0),)
    memory = (MemorySample(0.0, 1), MemorySample(10.0, 2_000_000))
    searches = tuple(SearchRecord('b"<i>', 1, 0.5 + n, 10) for n in range(2))
    page = Page(page_html(ReportData("x", stages=stages, memory=memory, searches=searches)))
    assert [text.strip() for text in page.texts["text"]].count("$sort_1$ <b> & $") == 2
    assert "b" not in page.texts
    assert "i" not in page.texts
