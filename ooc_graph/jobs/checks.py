"""What goes together in a job: names of stages, and which answers a stage may be about."""

from __future__ import annotations

from collections.abc import Iterator

from ooc_graph.jobs.mistakes import Mistake, nearest
from ooc_graph.jobs.model import FilesSource, Job, KroneckerSource, StoreSource
from ooc_graph.jobs.stage_tables import (
    AboutAnswers,
    AnyStage,
    DiffStage,
    HasAnswers,
    ManyStage,
    PagerankStage,
    ReportStage,
    SsspStage,
    UploadStage,
    ValidateStage,
)

BUILD = "build"
"""What the stage that builds the graph is called."""
RESERVED = (BUILD, "graph", "comparison")
"""Names that no stage may have: of the build, of what it writes, of a page about several runs."""
AFTER_REPORTS = ("report", "upload")
"""Kinds of stages that may follow a report: those that a page about the run does not show."""


def mistakes_of(job: Job) -> Iterator[Mistake]:
    """What no table can know by itself."""
    if job.build is not None and isinstance(job.source, StoreSource):
        yield Mistake((BUILD,), "the source is a store, of which nothing is built")
    earlier: dict[str, AnyStage] = {}
    for number, stage in enumerate(job.stage):
        later = [one.label for one in job.stage[number:] if one.kind not in AFTER_REPORTS]
        if isinstance(stage, ReportStage) and later:
            text = f"a report is about the stages before it; put it after {later[-1]}"
            yield Mistake(("stage", number, "kind"), text)
        for key, text in _about_stage(job, stage, earlier):
            yield Mistake(("stage", number, key), text)
        earlier.setdefault(stage.label, stage)


def _about_stage(
    job: Job, stage: AnyStage, earlier: dict[str, AnyStage]
) -> Iterator[tuple[str, str]]:
    """Keys of a stage, and what is wrong with each."""
    source = job.source
    if stage.label in RESERVED:
        yield "name", f"a stage cannot be called {stage.label}; give another name"
    if stage.label in earlier:
        yield "name", f"two stages are called {stage.label}; give one of them another name"
    keys = getattr(stage, "keys", None)
    if keys is not None and not isinstance(source, KroneckerSource):
        yield "keys", "search keys are for a source of kind kronecker; give roots or roots_file"
    needs_weights = isinstance(stage, SsspStage) or (
        isinstance(stage, ManyStage) and stage.kernel == "apsp"
    )
    if needs_weights and not _may_have_weights(job):
        yield "kind", "needs weights, and the source is said to have none"
    if isinstance(stage, AboutAnswers):
        yield from _about_answers(job, stage, earlier)
    if isinstance(stage, UploadStage):
        yield from _about_upload(job, stage, earlier)


def _about_upload(
    job: Job, stage: UploadStage, earlier: dict[str, AnyStage]
) -> Iterator[tuple[str, str]]:
    nothing = ValidateStage | UploadStage
    writing = [name for name, one in earlier.items() if not isinstance(one, nothing)]
    if not isinstance(job.source, StoreSource):
        writing.insert(0, BUILD)
    if stage.of not in writing:
        yield (
            "of",
            f"no earlier stage called {stage.of} writes anything; " + nearest(stage.of, writing),
        )


def _may_have_weights(job: Job) -> bool:
    if isinstance(job.source, KroneckerSource):
        return job.source.weighted
    if isinstance(job.source, FilesSource):
        # Column 0, which equals False, may have the weights.
        return job.source.weight is not False and job.source.weight != "none"
    return True


def _about_answers(
    job: Job, stage: AboutAnswers, earlier: dict[str, AnyStage]
) -> Iterator[tuple[str, str]]:
    """What is wrong with the answers that a stage is about."""
    answers = {name: one for name, one in earlier.items() if isinstance(one, HasAnswers)}
    of = answers.get(stage.of)
    if of is None:
        yield (
            "of",
            f"no earlier stage with answers is called {stage.of}; "
            + nearest(stage.of, list(answers)),
        )
    elif isinstance(of, ManyStage) and isinstance(stage, ValidateStage):
        yield "of", "answers from many sources cannot be validated; validate searches from roots"
    elif isinstance(of, ManyStage) and isinstance(stage, DiffStage):
        yield "of", "answers from many sources cannot be compared; compare searches from roots"
    elif isinstance(of, ManyStage) and of.reduce is None:
        yield "of", "distances of many sources are no table; give that stage reduce"
    against_edges = isinstance(stage, ValidateStage) and stage.against == "edges"
    if against_edges and isinstance(job.source, StoreSource):
        yield "against", "the source is a store: there are no edges, validate against the graph"
    if against_edges and isinstance(of, PagerankStage):
        yield "against", "PageRank is validated against the graph, which has each arc once"
