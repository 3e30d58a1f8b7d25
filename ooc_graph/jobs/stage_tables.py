"""The stages of a job: what is searched, validated, exported and compared."""

from __future__ import annotations

from typing import Literal, Self, TypeAlias

from pydantic import Field, model_validator

from ooc_graph.answers.asked import Asked
from ooc_graph.answers.reductions import BINS, HISTOGRAM, Bins
from ooc_graph.jobs.fields import Location, Name, Table, Target, Vertices, as_taken
from ooc_graph.model.defaults import ALPHA, MAX_ITER, TOL
from ooc_graph.report.needed import require_figures

Exchange: TypeAlias = Literal["auto", "scheduler"]


class Stage(Table):
    """What all stages have."""

    name: Name | None = Field(
        default=None, description="what its folder is called; by default the kind"
    )

    @property
    def label(self) -> str:
        """Its name, which is unique in the job."""
        kind: str = getattr(self, "kind")  # noqa: B009 - of each stage another literal
        return self.name or kind


class Rooted(Stage):
    """Stages that begin at vertices."""

    roots: Vertices | None = Field(
        default=None, description="vertices to begin at, as in the input"
    )
    roots_file: Location | None = Field(
        default=None, description="a file of them, one a line, or .npy"
    )
    keys: int | None = Field(default=None, ge=1, description="as many of Graph500's search keys")

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        given = [name for name in ROOTS if getattr(self, name) is not None]
        if len(given) > 1 or (isinstance(self, Search) and not given):
            raise ValueError(f"give one of {', '.join(ROOTS)}, not {' and '.join(given) or 'none'}")
        return self


ROOTS = ("roots", "roots_file", "keys")
VERTEX_FILES = ("roots_file", "personalization")
"""Keys that may name a file of vertices."""


class Search(Rooted):
    """Searches with an answer for each root, in a store of its own."""

    exchange: Exchange = Field(default="auto", description="scheduler: the ranks of all workers")
    method: Literal["rows", "edges"] = Field(default="rows", description="edges: each edge once")


class BfsStage(Search):
    """Breadth-first search from each root."""

    kind: Literal["bfs"]


class SsspStage(Search):
    """Shortest paths from each root, on weights of zero or more."""

    kind: Literal["sssp"]


class ManyStage(Rooted):
    """Distances or levels from many sources in one answer; from all vertices without roots."""

    kind: Literal["many"]
    kernel: Literal["apsp", "multi_source_bfs"] = Field(
        description="apsp: distances, as `johnson`; multi_source_bfs: levels"
    )
    targets: Vertices | None = Field(
        default=None, description="vertices to reach; all unless given"
    )
    cutoff: float | None = Field(default=None, description="what is farther counts as unreached")
    reduce: Literal["eccentricity", "closeness", "sum", "histogram"] | None = Field(
        default=None, description="a number or counts for each source instead of distances"
    )
    bins: int | None = Field(default=None, ge=1, description="bins of a histogram")
    bin_width: float | None = Field(default=None, gt=0, description="their width")
    parents: bool = Field(default=False, description="also each vertex's parent on its way (apsp)")

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.reduce != HISTOGRAM and (self.bins, self.bin_width) != (None, None):
            raise ValueError("bins and bin_width are for reduce = 'histogram'")
        hops = self.kernel == "multi_source_bfs"
        return as_taken(
            self,
            lambda: Asked(None, self.cutoff, self.reduce, self.parents, self.all_bins, hops=hops),
        )

    @property
    def all_bins(self) -> Bins:
        """Bins as the search takes them."""
        return Bins(BINS if self.bins is None else self.bins, self.bin_width)


class OfGraph(Stage):
    """Stages with one answer, about the whole graph, that CPUs find."""

    exchange: Exchange = Field(default="auto", description="scheduler: the ranks of all workers")


class ComponentsStage(OfGraph):
    """Weakly connected components."""

    kind: Literal["components"]


class PagerankStage(OfGraph):
    """PageRank, to a tolerance or by a number of iterations."""

    kind: Literal["pagerank"]
    alpha: float = Field(
        default=ALPHA, ge=0, le=1, description="damping: the share of a score that goes along arcs"
    )
    personalization: Vertices | Location | None = Field(
        default=None,
        description="vertices that scores jump to, each as likely, or a file of them; all unless "
        "given",
    )
    weight: bool = Field(default=True, description="whether arcs count by their weights, if any")
    tol: float = Field(
        default=TOL,
        ge=0,
        allow_inf_nan=False,
        description="stop when all scores together change by less than this times the vertices",
    )
    max_iter: int = Field(default=MAX_ITER, ge=1, description="most iterations until then")
    iterations: int | None = Field(default=None, ge=1, description="exactly this many instead")


class ValidateStage(Stage):
    """Answers of a stage held against the graph, or against the edges that it was built from."""

    kind: Literal["validate"]
    of: Name = Field(description="name of the stage whose answers these are")
    against: Literal["graph", "edges"] = Field(
        default="graph",
        description="edges: checks the build too, and counts the edges of Graph500's TEPS",
    )


class ExportStage(Stage):
    """Answers of a stage as files."""

    kind: Literal["export"]
    of: Name = Field(description="name of the stage whose answers these are")
    format: Literal["csv", "tsv", "npz", "parquet"] = Field(
        default="csv", description="of the files"
    )


class DiffStage(Stage):
    """Answers of a stage held against earlier ones: files of what changed."""

    kind: Literal["diff"]
    of: Name = Field(description="name of the stage whose answers these are")
    against: Location = Field(
        description="folder of an earlier run, or an answer of one; it need not be there yet"
    )
    format: Literal["csv", "parquet"] = Field(default="csv", description="of the files")


class ReportStage(Stage):
    """A page about this run, as ``ooc-graph report`` makes it; the last stage."""

    kind: Literal["report"]

    @model_validator(mode="after")
    def _figures(self) -> Self:
        return as_taken(self, lambda: require_figures("a report"))


class UploadStage(Stage):
    """What a stage has written, copied to an object store."""

    kind: Literal["upload"]
    of: Name = Field(description="name of the stage that wrote it, or build for the graph")
    to: Target = Field(
        description="URL of a folder in an object store; paths below it are those in the run's"
    )


AboutAnswers: TypeAlias = ValidateStage | ExportStage | DiffStage
"""Stages that are about the answers of an earlier one."""
HasAnswers: TypeAlias = BfsStage | SsspStage | ManyStage | ComponentsStage | PagerankStage
AnyStage: TypeAlias = HasAnswers | AboutAnswers | ReportStage | UploadStage
