"""Bytes of a text file, plain or compressed, and the lines that they make."""

from __future__ import annotations

import gzip
import hashlib
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from ooc_graph.errors import InputError, MissingFileError

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError, ZstdFile
else:
    from backports.zstd import ZstdError, ZstdFile

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
BOM = b"\xef\xbb\xbf"
PEEK_BYTES = 256 << 10
_FOREIGN = {b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"PK\x03\x04": "zip"}


def compression_of(path: str) -> str:
    """``gzip``, ``zstd`` or an empty string, by the first bytes of the file.

    A name that promises another content is refused.
    """
    with _open_raw(path) as raw:
        magic = raw.read(6)
    if magic.startswith(GZIP_MAGIC):
        return "gzip"
    if magic.startswith(ZSTD_MAGIC) or _is_skippable(magic):
        return "zstd"
    for start, name in _FOREIGN.items():
        if magic.startswith(start):
            raise InputError(
                f"{name} files are not read as text",
                path=path,
                advice="unpack it, or use gz or zst",
            )
    if magic and Path(path).suffix in {".gz", ".zst"}:
        raise InputError(
            f"named {Path(path).suffix}, but the content is not compressed that way",
            path=path,
            advice="rename the file or compress it again",
        )
    return ""


def _is_skippable(start: bytes) -> bool:
    """Whether bytes begin a zstd frame that holds no text (``pzstd`` writes them) [1]_.

    .. [1] Y. Collet, M. Kucherawy (eds.), "Zstandard Compression", RFC 8878, 2021, 3.1.2.
    """
    return int.from_bytes(start[:4], "little") >> 4 == 0x184D2A5


def refuse_compressed(path: str) -> None:
    """Refuse a packed file of a format that is read at arbitrary positions."""
    packed = {GZIP_MAGIC: "gzip", ZSTD_MAGIC: "zstd", **_FOREIGN}
    with _open_raw(path) as raw:
        start = raw.read(6)
    for magic, name in packed.items():
        if start.startswith(magic) and name != "zip":
            raise InputError(
                f"is compressed ({name})",
                path=path,
                advice="unpack it first: arrays and tables are read at arbitrary places",
            )


def _open_raw(path: str) -> FileIO:
    try:
        return FileIO(path, "rb")
    except FileNotFoundError:
        raise MissingFileError("no such file", path=path) from None
    except IsADirectoryError:
        raise InputError(
            "is a directory", path=path, advice="name the files, or a folder of Parquet or text"
        ) from None
    except OSError as error:
        raise InputError(f"cannot be opened: {error.strerror}", path=path) from error


class ByteReader:
    """Decompressed bytes of a file from an offset on; use as a context manager."""

    def __init__(self, path: str, start: int = 0) -> None:
        self.path, self.offset = path, 0
        kind = compression_of(path)
        raw = _open_raw(path)
        self._stream: Any = raw
        if kind == "gzip":
            self._stream = gzip.GzipFile(fileobj=raw)
        elif kind == "zstd":
            self._stream = ZstdFile(raw)
        self._raw = raw
        if kind:
            self._skip(start)
        else:
            self.offset = raw.seek(start)

    def __enter__(self) -> ByteReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._raw.close()

    def _skip(self, count: int) -> None:
        scratch = memoryview(bytearray(min(count, 1 << 20)))
        while count > 0:
            got = self.fill(scratch[: min(count, len(scratch))])
            if not got:
                return
            count -= got

    def fill(self, view: memoryview) -> int:
        """Fill ``view``; fewer bytes than asked for mean the end of the file.

        InputError says that the compressed data is cut short or damaged, and from which line on.
        """
        done = 0
        try:
            while done < len(view):
                got = self._stream.readinto(view[done : done + (1 << 20)])
                if not got:
                    break
                done += got
        except EOFError:
            raise self._damaged("compressed data ends early", self.offset + done) from None
        except (OSError, zlib.error, ZstdError) as error:
            raise self._damaged(f"cannot be read: {error}", self.offset + done) from error
        self.offset += done
        return done

    def _damaged(self, problem: str, offset: int) -> InputError:
        return InputError(
            f"{problem} after {offset:,} bytes of text",
            path=self.path,
            line=line_at(self.path, offset),
            advice="fetch or compress the file again",
        )


def line_at(path: str, offset: int) -> int | None:
    """1-based line that holds byte ``offset`` of the decompressed text; reads up to there."""
    line, view = 1, bytearray(min(offset, 1 << 20))
    try:
        with ByteReader(path) as reader:
            while reader.offset < offset:
                wanted = min(len(view), offset - reader.offset)
                got = reader.fill(memoryview(view)[:wanted])
                line += view.count(b"\n", 0, got)
                if got < wanted:
                    break
    except (InputError, RecursionError):
        return None
    return line


@dataclass(frozen=True)
class Peek:
    """The beginning of a file's text, without a byte order mark of ``skipped`` bytes.

    Offsets in the file are offsets in ``text`` plus this. ``whole``: there is no more text. The
    size of a ``compressed`` file says nothing about the text.
    """

    path: str
    text: bytes
    skipped: int
    whole: bool
    compressed: bool

    def fault(self, problem: str, advice: str = "", line: int | None = None) -> InputError:
        """Return the error of a file that is not what it should be."""
        return InputError(problem, path=self.path, line=line, advice=advice)

    def lines(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield (line number, file offset after the line, text stripped) of each whole line."""
        at, number = 0, 0
        while at < len(self.text):
            end = self.text.find(b"\n", at)
            if end < 0 and not self.whole:
                return
            end = len(self.text) if end < 0 else end + 1
            number += 1
            yield number, self.skipped + end, self.text[at:end].strip()
            at = end


def shown(text: bytes) -> str:
    """Show the beginning of a line, or of a word, in an error."""
    return repr(text[:60].decode("utf-8", "replace"))


def peek(path: str) -> Peek:
    """Read the beginning of a file; UTF-16 text is refused."""
    view = bytearray(PEEK_BYTES)
    with ByteReader(path) as reader:
        got = reader.fill(memoryview(view))
    text = bytes(view[:got])
    if text[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        raise InputError("is UTF-16 text", path=path, advice="save it as UTF-8 or ASCII")
    skipped = len(BOM) if text.startswith(BOM) else 0
    return Peek(path, text[skipped:], skipped, got < PEEK_BYTES, bool(compression_of(path)))


def peek_only(paths: Sequence[str], name: str) -> Peek:
    """`peek` at the one file that a format admits."""
    if len(paths) != 1:
        raise InputError(f"format {name} is one file", path=paths[1], advice="build them apart")
    return peek(paths[0])


def file_record(path: str) -> dict[str, Any]:
    """Name, size and SHA-256 of a file as it lies on disk (read in pieces)."""
    with _open_raw(path) as raw:
        digest = hashlib.file_digest(raw, "sha256").hexdigest()
    return {"name": Path(path).name, "bytes": Path(path).stat().st_size, "sha256": digest}
