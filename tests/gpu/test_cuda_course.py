"""The course of a BFS: levels in time order, and the arcs and vertices that the answer has."""

from __future__ import annotations

import numpy as np
import pytest

from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from tests.gpu.graphs import kronecker, path


@pytest.mark.parametrize("arcs", [kronecker(12), path(600)], ids=["kronecker", "path"])
def test_a_traced_search_finds_the_same_and_knows_when(arcs):
    shard = arcs.shards(1)[0]
    plain = CudaBfsSearch(shard.out_hub, shard.out_hub).run(0)
    search = CudaBfsSearch(shard.out_hub, shard.out_hub, trace=True)
    traced = search.run(0)
    assert traced.parent.tobytes() == plain.parent.tobytes()
    assert traced.level.tobytes() == plain.level.tobytes()
    course = search.level_trace()
    levels = plain.level.max() + 1
    assert len(course) == levels + 1
    found = np.bincount(plain.level[plain.level >= 0], minlength=levels)
    assert course["found"][:levels].tolist() == found.tolist()
    assert course["ns"][0] == 0
    assert (np.diff(course["ns"]) >= 0).all()
    assert 0 < course["ns"][-1] <= traced.elapsed_s * 1e9 * 1.5
