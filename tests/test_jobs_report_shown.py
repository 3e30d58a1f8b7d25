"""Chromium lays pages about runs out, report and live: on phones and wide, light and dark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image

from ooc_graph.jobs.live import page_html
from ooc_graph.report.runs_page import runs_template
from tests.command_line import LIMIT_S
from tests.job_runs import Command, small_job

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium: apt-get install chromium"),
]
PHONE, WIDE = 390, 1400
HEIGHT = 3000
# A window has 500 pixels at least, a frame has as many as it is given. The script of this page, not
# of the report, compares what is in the frame with its width.
FRAME = """<!DOCTYPE html><body style="margin: 0">
<iframe src="report.html" style="width: {width}px; height: {height}px; border: 0"></iframe>
<script>
onload = () => {{
  const page = document.querySelector("iframe").contentDocument;
  const inside = (one) => one.closest(".scroll, .drawing, pre");
  const wide = [...page.body.querySelectorAll("*")].filter(
    (one) => !inside(one) && one.getBoundingClientRect().right > {width} + 0.5
  );
  document.title = [page.documentElement.scrollWidth, ...wide.map((one) => one.tagName)].join(" ");
}};
</script>
"""


def browser(folder: Path, *words: str) -> str:
    """What the browser prints; it has a profile of its own."""
    assert BROWSER is not None
    common = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    common += ["--allow-file-access-from-files", f"--user-data-dir={folder / 'profile'}"]
    line = [BROWSER, *common, *words]
    environment = os.environ | {"HOME": str(folder)}
    done = subprocess.run(line, capture_output=True, timeout=LIMIT_S, check=True, env=environment)
    return done.stdout.decode()


@pytest.fixture(params=["report", "live"])
def frames(ooc: Command, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with a page about runs with long names, and frames around it."""
    long = "a_name_of_a_stage_that_" + 3 * "does_not_end_"
    more = f'[[stage]]\nkind = "bfs"\nname = "{long}"\nroots = [9]\n'
    runs = [tmp_path / f"{name}-{'run' * 15}" for name in "abcdefg"]
    for run in runs:
        done = ooc("run", small_job(tmp_path, more), "--out", run)
        assert done.code == 2  # vertex 9 is not there, and the page says so
    if request.param == "live":
        page = page_html(runs_template("live.html.j2"), runs[-1], datetime.now(UTC))
        (tmp_path / "report.html").write_text(page)
    else:
        assert ooc("report", *runs, "--out", tmp_path / "report.html").code == 0
    for width in (PHONE, WIDE):
        text = FRAME.format(width=width, height=HEIGHT)
        (tmp_path / f"{width}.html").write_text(text)
    return tmp_path


def scheme(name: str) -> str:
    return f"--blink-settings=preferredColorScheme={['dark', 'light'].index(name)}"


@pytest.mark.parametrize("width", [PHONE, WIDE])
def test_nothing_is_wider_than_the_window(frames: Path, width: int) -> None:
    found = browser(
        frames, "--virtual-time-budget=5000", "--dump-dom", f"file://{frames}/{width}.html"
    )
    title = re.search("<title>(.*?)</title>", found)
    assert title is not None
    assert title[1] == str(width)


@pytest.mark.parametrize("width", [PHONE, WIDE])
def test_the_page_follows_the_colour_scheme(frames: Path, width: int) -> None:
    grounds = {}
    for name in ("light", "dark"):
        path = frames / f"{width}-{name}.png"
        window = f"--window-size={max(width, 500)},{HEIGHT}"
        browser(
            frames, scheme(name), window, f"--screenshot={path}", f"file://{frames}/{width}.html"
        )
        pixels = np.round(255 * image.imread(path)[:, :width, :3]).astype(int)
        grey = pixels.mean(axis=2)
        grounds[name] = Counter(grey.astype(int).ravel().tolist()).most_common(1)[0][0]
        # There is text, and it stands out from the ground.
        assert np.mean(np.abs(grey - grounds[name]) > 100) > 0.005
        marks = {"light": (179, 32, 58), "dark": (255, 132, 149)}
        assert np.any(np.all(np.abs(pixels - marks[name]) < 4, axis=2))
    assert grounds["light"] > 230
    assert grounds["dark"] < 50
