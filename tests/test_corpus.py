"""Stores and answers keep their bytes, whichever way they are made; see `tests.corpus`."""

from __future__ import annotations

from collections.abc import Iterator

import dask
import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph.runtime import engine_cache
from ooc_graph.sinks.single import NUMPY, answer_bytes
from tests import corpus as made
from tests.corpus import Corpus

RECORDED = made.recorded()


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with og.local_cluster(2) as client, dask.config.set({"ooc-graph.patience": "120s"}):
        yield client


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, client: Client) -> Corpus:
    return Corpus(tmp_path_factory.mktemp("corpus"), lambda: client)


def test_nothing_that_was_recorded_is_left_out() -> None:
    names = [f"store {name}" for name in made.store_names()]
    names += [f"{kernel} of {name}" for name, kernel in made.answer_names()]
    assert {name for name in RECORDED if not name.startswith("stored ")} == set(names)


@pytest.mark.parametrize("name", made.store_names())
def test_stores_keep_their_bytes(name: str, corpus: Corpus) -> None:
    assert corpus.store(name) == RECORDED[f"store {name}"]


@pytest.mark.parametrize(
    ("name", "kernel", "way"),
    [
        pytest.param(name, kernel, way, marks=[pytest.mark.slow] * made.is_slow(name, way))
        for name, kernel in made.answer_names()
        for way in made.ways(name, kernel)
    ],
)
def test_answers_keep_their_bytes(name: str, kernel: str, way: str, corpus: Corpus) -> None:
    assert corpus.answer(name, kernel, way) == RECORDED[f"{kernel} of {name}"]


def test_ranks_that_are_to_have_tails_in_the_store_do(corpus: Corpus, client: Client) -> None:
    for kernel in made.RANKS_ON_DISK:
        digest = corpus.answer("kronecker", kernel, made.BY_RANKS_ON_DISK)
        assert digest == RECORDED[f"{kernel} of kronecker"]
        shares = [share for shares in client.run(shares_in_memory).values() for share in shares]
        assert len(shares) == 4
        assert max(shares) < 1


def shares_in_memory() -> list[float]:
    """Of the arcs of each rank that a worker used last."""
    ranks = list(engine_cache._engines.values())[-1].ranks.values()
    return [rank.plan.head_arcs / rank.plan.facts.arcs for rank in ranks]


@pytest.mark.parametrize("name", [name for name in RECORDED if name.startswith("stored ")])
def test_stored_answers_keep_their_bytes(name: str, corpus: Corpus) -> None:
    kernel, _, graph = name.removeprefix("stored ").partition(" of ")
    assert corpus.stored_answer(graph, kernel) == RECORDED[name]


@pytest.mark.parametrize("kernel", sorted(made.ON_DISK))
def test_what_is_to_be_found_on_the_disk_is(kernel: str, corpus: Corpus) -> None:
    graph, limit, sources = corpus.graph("kronecker"), made.ON_DISK[kernel], {}
    if kernel == "apsp":
        sources["sources"] = corpus.sources("kronecker", 12)
    else:
        # A plan is of what is beside the answer.
        limit -= answer_bytes(graph, kernel, NUMPY)
    planned = og.plan(graph, kernel, memory_limit=limit, **sources)
    assert planned["tier"] == "disk"
