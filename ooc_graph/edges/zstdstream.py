"""zstd files as a stream of bytes, decoded block by block.

Format: Y. Collet, M. Kucherawy (eds.), "Zstandard Compression", RFC 8878, 2021.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader, FileIO

import zstandard

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_BUFFER_BYTES = 64 << 10
_BLOCK_BYTES = 128 << 10
_RUN = 1
_HAS_CHECKSUM = 4  # bit of the descriptor, a frame's fifth byte (RFC 8878, 3.1.1.1)


def is_skippable(start: bytes) -> bool:
    """Whether bytes begin a frame that holds no text (``pzstd`` writes them)."""
    return int.from_bytes(start[:4], "little") >> 4 == 0x184D2A5


class ZstdReader:
    """Concatenated zstd frames as one stream that notices a missing end.

    The decoder gets one block at a time and so gives at most 128 KiB at a time: it would give
    all that a piece of input decodes to, which for repeated bytes is 30,000 times as much.
    ``zstandard.stream_reader`` bounds its output, but ends quietly where a cut file ends.
    """

    def __init__(self, raw: FileIO) -> None:
        self._file = BufferedReader(raw, _BUFFER_BYTES)
        self._texts = self._decoded()
        self._ready = memoryview(b"")

    def readinto(self, view: memoryview) -> int:
        """Fill the front of ``view``; 0 at the end of the last frame, EOFError inside a frame."""
        while not self._ready:
            text = next(self._texts, None)
            if text is None:
                return 0
            self._ready = memoryview(text)
        count = min(len(view), len(self._ready))
        view[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        """Close the file underneath."""
        self._file.close()

    def _decoded(self) -> Iterator[bytes]:
        while magic := self._file.read(len(ZSTD_MAGIC)):
            if len(magic) < len(ZSTD_MAGIC):
                raise EOFError("compressed data ends early")
            if is_skippable(magic):
                self._skip_frame()
                continue
            if magic != ZSTD_MAGIC:
                raise zstandard.ZstdError("bytes that belong to no frame")
            frame = zstandard.ZstdDecompressor().decompressobj()
            for piece in self._pieces():
                yield frame.decompress(piece)
            if not frame.eof:
                raise zstandard.ZstdError("a frame does not end with its last block")

    def _pieces(self) -> Iterator[bytes]:
        """The rest of a frame: its header, each block, its checksum."""
        begun = ZSTD_MAGIC + self._exactly(1)
        yield begun + self._exactly(zstandard.frame_header_size(begun) - len(begun))
        last = False
        while not last:
            start = self._exactly(3)
            value = int.from_bytes(start, "little")
            last, kind, size = bool(value & 1), value >> 1 & 3, value >> 3
            if size > _BLOCK_BYTES:
                raise zstandard.ZstdError("a block of more than 128 KiB")
            yield start + self._exactly(1 if kind == _RUN else size)
        if begun[-1] & _HAS_CHECKSUM:
            yield self._exactly(4)

    def _skip_frame(self) -> None:
        left = int.from_bytes(self._exactly(4), "little")
        while left:
            left -= len(self._exactly(min(left, _BUFFER_BYTES)))

    def _exactly(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise EOFError("compressed data ends early")
        return data
