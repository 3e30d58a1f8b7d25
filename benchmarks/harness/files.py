"""Files of a benchmark: their pages in the system's memory, their rate, programs run on them."""

import inspect
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from harness.timing import timed

PIECE_BYTES = 1 << 20
CALL = """
import pickle, sys
sys.path.insert(0, {folder!r})
from {module} import {name}
print(pickle.dumps({name}(*pickle.loads(bytes.fromhex(sys.argv[1])))).hex())
"""


def drop_from_cache(paths: Iterable[Path]) -> None:
    """Bring files to the disk and have the system forget their pages."""
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_through(path: Path) -> int:
    """Bytes of a file, read piece by piece into the same memory."""
    buffer, got = bytearray(PIECE_BYTES), 0
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            got += count
    return got


def bytes_per_s(calls: Iterable[Callable[[], int]], threads: int) -> float:
    """Bytes a second of calls by threads; each call returns its bytes."""
    with ThreadPoolExecutor(threads) as pool:
        elapsed_s, _, total = timed(lambda: sum(pool.map(lambda call: call(), calls)))
    return float(total / elapsed_s)


def in_own_process(
    function: Callable[..., Any],
    *arguments: Any,
    environment: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
) -> Any:
    """What a benchmark's function returns in a process of its own; both ways it is pickled.

    ``environment`` is what it has in addition to this one's; ``prefix`` a program that runs Python.
    """
    module = Path(inspect.getfile(function)).resolve()
    call = CALL.format(folder=str(module.parent), module=module.stem, name=function.__name__)
    done = subprocess.run(
        [*prefix, sys.executable, "-P", "-c", call, pickle.dumps(arguments).hex()],
        check=True,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
    )
    return pickle.loads(bytes.fromhex(done.stdout.splitlines()[-1]))
