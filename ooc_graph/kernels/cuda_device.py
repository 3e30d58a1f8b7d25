"""One CUDA device: whole searches in one launch, and the steps of ranks."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda_bfs import CudaBfsSearch
from ooc_graph.kernels.cuda_bfs_rank import CudaBfsRank, CudaBfsShared
from ooc_graph.kernels.cuda_modules import cuda
from ooc_graph.kernels.cuda_sssp import CudaSsspSearch
from ooc_graph.kernels.cuda_sssp_rank import CudaSsspRank
from ooc_graph.kernels.cuda_sssp_shared import CudaSsspShared
from ooc_graph.kernels.sides import hub_rows, light_rows, require_whole
from ooc_graph.types import AnyArray, Shard


class CudaDevice:
    """Searches on the device and the stream that are CuPy's current ones.

    Made in the process that uses it, and stays there. Connected components it does not find.

    Raises
    ------
    DeviceError
        CuPy is not installed, or there is no usable device.
    """

    def __init__(self) -> None:
        cuda()

    def bfs(self, shard: Shard, *, original_of: AnyArray | None = None) -> CudaBfsSearch:
        """BFS on a whole graph (hub-first rows).

        Parameters
        ----------
        original_of
            Original ids below 2**32 - 1 for parents of answers that stay on the device.
        """
        require_whole(shard.dealing)
        return CudaBfsSearch(*hub_rows(shard), original_of=original_of, count_arcs=False)

    def bfs_rank(self, shard: Shard) -> CudaBfsRank:
        """BFS steps on one shard (hub-first rows)."""
        return CudaBfsRank(shard.dealing, *hub_rows(shard))

    def bfs_shared(self, vertices: int, shards: int) -> CudaBfsShared:
        """Frontier and visited vertices of all ranks, one of it in a process."""
        return CudaBfsShared(vertices, shards)

    def sssp(self, shard: Shard, *, original_of: AnyArray | None = None) -> CudaSsspSearch:
        """SSSP on a whole graph (light-first rows); ``original_of`` as of `bfs`."""
        require_whole(shard.dealing)
        return CudaSsspSearch(*light_rows(shard), shard.tuples, original_of=original_of)

    def sssp_rank(self, shard: Shard) -> CudaSsspRank:
        """SSSP steps on one shard (light-first rows)."""
        return CudaSsspRank(shard.dealing, *light_rows(shard), shard.tuples)

    def sssp_shared(self, vertices: int, dtype: np.dtype[Any]) -> CudaSsspShared:
        """Everyone's distances, of ``dtype``, one of it in a process and search."""
        return CudaSsspShared(vertices, dtype)

    def components(self, shard: Shard) -> NoReturn:  # noqa: ARG002 (as other devices)
        """Refuse: components are found on a CPU."""
        raise _no_components()

    def components_rank(self, shard: Shard) -> NoReturn:  # noqa: ARG002
        """Refuse: components are found on a CPU."""
        raise _no_components()

    def components_shared(self, vertices: int) -> NoReturn:  # noqa: ARG002
        """Refuse: components are found on a CPU."""
        raise _no_components()

    def close(self) -> None:
        """Nothing to end: what searches hold goes with them."""


def _no_components() -> UsageError:
    return UsageError("connected components are not found on a CUDA device: use --device cpu")
