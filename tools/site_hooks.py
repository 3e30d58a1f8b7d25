"""Hooks of MkDocs: pages from outside ``docs/``, links to them, generated tables, and notebooks.

Links in Markdown are those of the repository, so that they work wherever a page is read there.
README.md is the site's first page; what else lies outside ``docs/`` and is linked from a page is
copied to ``repo/``.
"""

from __future__ import annotations

import posixpath
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tools import notebooks, reference  # noqa: E402

LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
GENERATED = re.compile(r"<!-- generated: (\w+) -->")
OUTSIDE = ("*.md", "deploy/**/*", "pipelines/*", "benchmarks/records/*.svg")


def on_files(files: Files, config: Any) -> Files:
    """Add what lies outside ``docs/``, under its name in the site, and notebooks of pages."""
    for path in sorted({path for pattern in OUTSIDE for path in ROOT.glob(pattern)}):
        if path.is_file() and "__pycache__" not in path.parts:
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, in_site(name), abs_src_path=str(path)))
    for path in notebooks.PAGES:
        notebook = notebooks.executed(path.read_text())
        files.append(File.generated(config, f"tutorial/{path.stem}.ipynb", content=notebook))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put generated text in its place, and let links lead to where pages are in the site."""
    text = GENERATED.sub(lambda found: generated(found[1]), markdown)
    if Path(page.file.abs_src_path) in notebooks.PAGES:
        notebook = f"{Path(page.file.src_uri).stem}.ipynb"
        text = text.replace(
            "\n\n", f"\n\n[Download as a notebook with its output]({notebook})\n\n", 1
        )
    here = page.file.src_uri
    source = Path(page.file.abs_src_path).relative_to(ROOT).as_posix()

    def relinked(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[1]))
        if (ROOT / target).is_dir():
            target += "/README.md"
        to = posixpath.relpath(in_site(target), posixpath.dirname(here) or ".")
        return f"]({to}{found[2] or ''})"

    return LINK.sub(relinked, text)


def in_site(name: str) -> str:
    """A file of the repository as the site names it."""
    if name == "README.md":
        return "index.md"
    return name.removeprefix("docs/") if name.startswith("docs/") else f"repo/{name}"


@cache
def generated(name: str) -> str:
    """A generated part of a page."""
    return reference.PARTS[name]()
