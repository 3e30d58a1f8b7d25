"""Pages of the tutorial as notebooks, executed when the site is built."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from functools import cache
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from tools.pages import FENCE, NOT_EXECUTED, ROOT, prompted

_IMAGE, _LINK = re.compile(r"!\[[^\]]*\]\([^)]*\)\n*"), re.compile(r"\[([^\]]*)\]\((?!\w+:)[^)]*\)")
_LIMIT_S = 600
PAGES = sorted(
    page
    for page in (ROOT / "docs" / "tutorial").glob("*.md")
    if page.relative_to(ROOT).as_posix() not in NOT_EXECUTED
)
"""Pages that are notebooks, too."""


def notebook_of(page: str) -> nbformat.NotebookNode:
    """A page's text, programs and commands as cells; commands that are only shown stay text.

    Pictures are what programs draw, and links to other pages would lead nowhere.
    """
    cells, at = [], 0

    def add_text(until: int) -> None:
        text = _LINK.sub(r"\1", _IMAGE.sub("", page[at:until])).strip()
        if text:
            cells.append(nbformat.v4.new_markdown_cell(text))

    for found in FENCE.finditer(page):
        language, block = found[1], found[2].strip()
        if language not in ("python", "console"):
            continue
        add_text(found.start())
        at = found.end()
        if language == "console":
            block = "\n".join(["%%bash -e", *prompted(block)])
        cells.append(nbformat.v4.new_code_cell(block))
    add_text(len(page))
    for number, cell in enumerate(cells):
        cell["id"] = str(number)  # else they are drawn
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


@cache
def executed(page: str) -> str:
    """The notebook of a page with its outputs, as JSON.

    CellExecutionError: a program or a command failed.
    """
    notebook = notebook_of(page)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        options = {"timeout": _LIMIT_S, "record_timing": False, "coalesce_streams": True}
        client = NotebookClient(notebook, resources={"metadata": {"path": folder}}, **options)
        manager = client.create_kernel_manager()
        # Files instead of ports, which others could reach.
        manager.transport, manager.ip = "ipc", str(Path(folder) / "kernel")
        client.execute(env={**os.environ, "PATH": path})
    return str(nbformat.writes(notebook))
