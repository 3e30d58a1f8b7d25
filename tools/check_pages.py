"""Type-check Python of the documentation that no test executes: mypy on each page's blocks.

python -m tools.check_pages
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from mypy import api

from tools.pages import NOT_EXECUTED, ROOT, blocks

PACKAGE = "pages"
"""Its modules are checked less strictly (``pyproject.toml``)."""


def main() -> int:
    """Print what mypy says of pages that are not executed; the exit status is mypy's."""
    pages = [*(ROOT / name for name in NOT_EXECUTED), *(ROOT / "deploy").rglob("*.md")]
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / PACKAGE
        package.mkdir()
        (package / "__init__.py").touch()
        for page in pages:
            if programs := blocks(page.read_text(), "python"):
                name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
                (package / f"{name}.py").write_text("\n".join(programs))
        configured = ["--config-file", str(ROOT / "pyproject.toml")]
        said, problems, status = api.run([*configured, str(package)])
    sys.stdout.write(said.replace(f"{package}/", ""))
    sys.stderr.write(problems)
    return status


if __name__ == "__main__":
    sys.exit(main())
