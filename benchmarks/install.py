"""How large an installation is, and how long the import takes.

    python benchmarks/install.py [--repeats 9] [--extra report]

The package and its dependencies are installed into an empty environment, as
``constraints/tested.txt`` has them. Bytes are of files without bytecode, pip and setuptools. The
import is that of ``ooc_graph`` in a new process, less what Python itself takes to start.
"""

import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from harness.program import Program, load_average

ROOT = Path(__file__).resolve().parents[1]
# What an environment has before anything is installed.
OTHERS = "pip", "setuptools", "pkg_resources", "wheel", "_distutils_hack"


def size_of(folder: Path) -> dict[str, int]:
    """Bytes of each top-level name."""
    sizes: dict[str, int] = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).parts[0]
        if path.is_file() and "__pycache__" not in path.parts and not name.startswith(OTHERS):
            sizes[name] = sizes.get(name, 0) + path.stat().st_size
    return sizes


def started(python: Path, code: str, repeats: int) -> float:
    """Seconds of a new process, the median."""
    taken = []
    for _ in range(repeats + 1):
        begun = perf_counter()
        subprocess.run([python, "-c", code], check=True, cwd="/")
        taken.append(perf_counter() - begun)
    # The first one writes bytecode.
    return median(taken[1:])


def main() -> None:
    program = Program("install", __doc__, repeats=9)
    program.add("--extra", default="", help="an extra that is installed, too")
    options = program.parse()
    with TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = Path(folder) / "bin" / "python"
        what = f"{ROOT}[{options.extra}]" if options.extra else str(ROOT)
        pip = [python, "-m", "pip", "install", "--quiet", "--constraint"]
        subprocess.run([*pip, ROOT / "constraints" / "tested.txt", what], check=True)
        (packages,) = Path(folder).glob("lib/python*/site-packages")
        sizes = size_of(packages)
        nothing = started(python, "", options.repeats)
        imported = started(python, "import ooc_graph", options.repeats)
    largest = dict(sorted(sizes.items(), key=lambda one: -one[1])[:5])
    figures = {
        "bytes": sum(sizes.values()),
        "largest_bytes": largest,
        "import_s": round(imported - nothing, 4),
        "python_s": round(nothing, 4),
    }
    program.record(program.given("extra", "repeats"), figures | load_average())


if __name__ == "__main__":
    main()
