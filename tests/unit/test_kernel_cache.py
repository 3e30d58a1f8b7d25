"""The folder of compiled kernels changes with everything that is compiled into them."""

from __future__ import annotations

import errno
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile

import ooc_graph
from ooc_graph import kernel_cache
from ooc_graph.kernels.common.compiled import allocating_kernel, kernel, subroutine
from ooc_graph.kernels.common.store.rows import new_window
from ooc_graph.kernels.common.store.scans import scanner
from ooc_graph.runtime.compile_ahead import Part, is_compiled, turn
from tests import small_disks
from tests.small_disks import fill

small_disk = small_disks.small_disk
PACKAGE = Path(ooc_graph.__file__).parent


def hash_of(package: Path, function: str = "source_hash", *patterns: str) -> str:
    """What the package's copy would name its folder by, or what answers follow from."""
    spec = importlib.util.spec_from_file_location("copied_cache", package / "kernel_cache.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: str = getattr(module, function)(*patterns)
    return found


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("types.py", "DEAL_BLOCK_BITS = 10", "DEAL_BLOCK_BITS = 9"),
        ("__init__.py", '__version__ = "', '__version__ = "9.'),
        ("kernels/common/team.py", "SPINS = 4000", "SPINS = 4001"),
        ("kernels/common/sssp/plateaus.py", "parent < 0", "parent < 1"),
        ("kernels/cpu/sssp/pull.py", "REACHED", "REACHED_TOO"),
        ("validate/loops.py", "import", "import  "),
    ],
)
def test_what_is_compiled_in_changes_the_folder(tmp_path, name, before, after):
    shutil.copytree(PACKAGE, tmp_path / "p", ignore=shutil.ignore_patterns("__pycache__"))
    first = hash_of(tmp_path / "p")
    changed = tmp_path / "p" / name
    text = changed.read_text()
    assert before in text
    changed.write_text(text.replace(before, after, 1))
    assert hash_of(tmp_path / "p") != first
    changed.write_text(text)
    assert hash_of(tmp_path / "p") == first


@pytest.mark.parametrize(
    "name", ["kernels/cuda/many/many_answer.cuh", "kernels/cuda/many/many.cu", "types.py"]
)
def test_what_answers_follow_from_includes_kernels_of_devices(tmp_path, name):
    shutil.copytree(PACKAGE, tmp_path / "p", ignore=shutil.ignore_patterns("__pycache__"))
    first = hash_of(tmp_path / "p", "whole_hash")
    folder = hash_of(tmp_path / "p")
    changed = tmp_path / "p" / name
    changed.write_text(changed.read_text() + "\n")
    assert hash_of(tmp_path / "p", "whole_hash") != first
    # numba compiles nothing again because of a device's kernels.
    assert (hash_of(tmp_path / "p") == folder) == name.startswith("kernels/cuda")


def test_other_sources_count_if_asked_for(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "p", ignore=shutil.ignore_patterns("__pycache__"))
    asked = tmp_path / "p", "whole_hash", "traverse/*.py", "search/rank_states.py"
    found = {hash_of(*asked)}
    for name in ("traverse/bfs.py", "search/rank_states.py"):
        changed = tmp_path / "p" / name
        changed.write_text(changed.read_text() + "\n")
        found.add(hash_of(*asked))
    assert len(found) == 3
    assert hash_of(tmp_path / "p", "whole_hash") not in found


def test_kernels_in_folders_change_the_folder(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "p", ignore=shutil.ignore_patterns("__pycache__"))
    found = [hash_of(tmp_path / "p")]
    for name in ("kernels/cpu/a/team.py", "kernels/cpu/team.py", "kernels/cpu/a/rows.py"):
        path = tmp_path / "p" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("SPINS = 1\n")
        found.append(hash_of(tmp_path / "p"))
        path.unlink()
    assert len(set(found)) == 4


def test_all_that_is_compiled_is_among_the_sources():
    sources = set(kernel_cache._sources())
    paths = [*PACKAGE.glob("kernels/common/**/*.py"), *PACKAGE.glob("kernels/cpu/**/*.py")]
    having = [path for path in paths if "kernels.common.compiled import" in path.read_text()]
    assert len(having) > 40
    assert sources.issuperset(having)


DECORATORS = [kernel, allocating_kernel]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for compiled kernels that no problem is known of."""
    return use(tmp_path / "cache", monkeypatch)


def use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder))
    monkeypatch.setattr(kernel_cache, "_problems", [])
    return folder


def made(decorator: Callable[..., Any] = kernel) -> Any:
    """A new kernel, as a process has it that begins; the same one to the cache each time."""

    def add(a, b):
        return a + b

    return decorator(add)


def hits(made_kernel: Any) -> int:
    return sum(made_kernel.stats.cache_hits.values())


def made_scan() -> Any:
    """As `made`, a kernel that encloses a function that is compiled with it."""

    def keep(state, row, neighbors, weights):
        return neighbors[0] == weights[0]

    return scanner(subroutine(keep))


def test_a_kernel_that_encloses_another_is_kept(cache: Path) -> None:
    nobody = np.zeros(1, np.int64), np.zeros(1, np.int64), new_window(1, 64), 0, 0, 0
    for known in (0, 1):
        scan = made_scan()
        assert scan(*nobody, np.zeros(1, np.uint32)) == 0
        assert hits(scan) == known


def by_new_process(folder: Path, program: str, *words: str) -> str:
    """What a program prints that has its kernels in a folder."""
    (folder / "own.py").write_text(program)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    call = [sys.executable, str(folder / "own.py"), *words]
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    return done.stdout


def test_a_kernel_that_allocates_is_loaded_by_a_new_process(tmp_path: Path) -> None:
    """Nothing is compiled there, which would make numba's allocator ready."""
    program = (
        "import numpy as np\n"
        "from ooc_graph.kernels.common.compiled import allocating_kernel\n"
        "@allocating_kernel\n"
        "def ones(count):\n"
        "    return np.ones(count)\n"
        "print(ones(3).sum(), sum(ones.stats.cache_hits.values()))\n"
    )
    for known in (0, 1):
        assert by_new_process(tmp_path, program) == f"3.0 {known}\n"


def test_linear_algebra_is_imported_by_who_calls_it(tmp_path: Path) -> None:
    program = (
        "import sys, numba, numpy as np\n"
        "from ooc_graph.kernels.common.compiled import kernel\n"
        "@kernel\n"
        "def twice(number):\n"
        "    return 2 * number\n"
        "print(twice(3), 'scipy.linalg' in sys.modules)\n"
        "@numba.njit\n"
        "def product(some):\n"
        "    return np.dot(some, some)\n"
        "print(product(np.ones(3)), 'scipy.linalg' in sys.modules)\n"
    )
    assert by_new_process(tmp_path, program) == "6 False\n3.0 True\n"


def test_a_kernel_that_was_loaded_can_be_part_of_another(tmp_path: Path) -> None:
    """Its LLVM code is parsed then; and who loads the other one needs no more of it."""
    program = (
        "import sys\n"
        "from ooc_graph.kernels.common.compiled import kernel\n"
        "@kernel\n"
        "def third(number):\n"
        "    return 12 // number\n"
        "@kernel\n"
        "def twice(number):\n"
        "    return 2 * third(number)\n"
        "made = [third, twice]['twice' in sys.argv]\n"
        "hits = [sum(one.stats.cache_hits.values()) for one in (made, third) if made(3)]\n"
        "print(made(3), *hits)\n"
        "try:\n"
        "    made(0)\n"
        "except ZeroDivisionError as error:\n"
        "    print(error)\n"
    )
    for words, said in (([], "4 0 0"), (["twice"], "8 0 1"), (["twice"], "8 1 0"), ([], "4 1 1")):
        expected = f"{said}\ninteger division by zero\n"
        assert by_new_process(tmp_path, program, *words) == expected, words


class Pair(NamedTuple):
    one: Any
    other: Any


def test_arguments_have_the_types_that_numba_gives_them() -> None:
    plain, fixed = np.zeros((4, 4), np.float32), np.zeros(4, "<u2")
    fixed.flags.writeable = False
    for value in (
        1,
        True,
        2.0,
        np.uint64(3),
        None,
        (1, 2),
        (1, 2.0),
        Pair(plain, Pair(fixed, 1)),
        Pair(plain, plain),
        (),
        *(plain, plain.T, plain[::2, ::2], plain[0], fixed, np.zeros(0, np.int64), np.array(1)),
    ):
        assert made().typeof_pyval(value) == numba.typeof(value), value


@pytest.mark.parametrize("decorator", DECORATORS)
def test_what_is_compiled_is_kept(decorator: Callable[..., Any], cache: Path) -> None:
    for known in (0, 1):
        one = made(decorator)
        assert one(1, 2) == 3
        assert hits(one) == known
    assert len(list(cache.rglob("*.nbc"))) == 1
    assert kernel_cache.is_usable()


def test_one_process_at_a_time_keeps_a_kernel(cache: Path) -> None:
    made()(1, 2)
    (lock,) = cache.rglob("lock")
    one = made()
    with lock.open("wb") as turn, ThreadPoolExecutor(1) as other:
        fcntl.flock(turn, fcntl.LOCK_EX)
        waiting = other.submit(one, 1.5, 2.5)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=1)
        assert len(list(cache.rglob("*.nbc"))) == 1
        fcntl.flock(turn, fcntl.LOCK_UN)
        assert waiting.result(timeout=60) == 4
    assert len(list(cache.rglob("*.nbc"))) == 2


def goes_on(folder: Path, why: str, decorators: list[Any] = DECORATORS) -> None:
    """All kernels work, and there is one warning in all."""
    with pytest.warns(RuntimeWarning) as caught:
        found = [made(decorator)(1, 2) for decorator in decorators]
    assert found == [3] * len(decorators)
    (told,) = map(str, (warned.message for warned in caught))
    assert told.startswith(f"{folder}: compiled kernels cannot be kept here ({why}")
    assert "NUMBA_CACHE_DIR" in told
    assert not kernel_cache.is_usable()


def test_a_full_disk_stops_no_kernel(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = use(small_disk / "cache", monkeypatch)
    folder.mkdir()
    fill(small_disk)
    goes_on(folder, os.strerror(errno.ENOSPC))
    assert not list(folder.rglob("*.nb?*"))


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_folder_that_is_read_only(
    is_kept: bool, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there is used all the same."""
    folder = use(small_disk / "cache", monkeypatch)
    if is_kept:
        made()(1, 2)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    if is_kept:
        one = made()
        assert one(1, 2) == 3
        assert hits(one) == 1
    else:
        goes_on(folder, os.strerror(errno.EROFS))


def test_a_folder_that_cannot_be_made(cache: Path) -> None:
    cache.write_text("in the way")
    goes_on(cache, os.strerror(errno.ENOTDIR))


@pytest.mark.parametrize("name", ["_load_index", "_save_index", "_save_data"])
def test_a_disk_that_fails(name: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(IndexDataCacheFile, name, fail)
    goes_on(cache, os.strerror(errno.EIO))


@pytest.mark.parametrize("left_bytes", [0, 20])
def test_half_a_file(left_bytes: int, cache: Path) -> None:
    made()(1, 2)
    for path in cache.rglob("*.nb?"):
        path.write_bytes(path.read_bytes()[:left_bytes])
    goes_on(cache, "", [kernel])


def test_a_part_that_was_not_kept_is_not_marked(cache: Path) -> None:
    with turn(Part("bfs")):
        made()(1, 2)
    assert is_compiled(Part("bfs"))
    kernel_cache._problems.append(OSError())
    with turn(Part("sssp")):
        pass
    assert not is_compiled(Part("sssp"))


def test_a_search_with_a_full_cache(small_disk: Path) -> None:
    """From the beginning, in a process of its own."""
    fill(small_disk, 100 << 10)
    text = (
        "import ooc_graph as og\n"
        "graph = og.from_edges([1, 2, 3], [2, 3, 4])\n"
        # The search with the fewest kernels.
        "print(og.components(graph, device='cpu').component.tolist())\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    environment |= {"XDG_CACHE_HOME": str(small_disk), "PYTHONPATH": str(PACKAGE.parent)}
    run = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, "[1, 1, 1, 1]\n"), run.stderr
    assert run.stderr.count(f"RuntimeWarning: {small_disk}") == 1
    assert run.stderr.count("cannot be kept") == 1
