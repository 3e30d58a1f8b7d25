"""LDBC Graphalytics: ``NAME.e`` (edges), ``NAME.v`` (vertices), ``NAME.properties``.

Format: A. Iosup et al., "The LDBC Graphalytics Benchmark", arXiv:2011.15028.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ooc_graph.edges.bytestream import ByteReader, peek
from ooc_graph.edges.delimited import is_comment, is_number, split_fields
from ooc_graph.edges.lines import LineGrammar, is_count
from ooc_graph.edges.options import Column, ReadOptions
from ooc_graph.edges.textsource import TextSource, text_file
from ooc_graph.errors import InputError, UsageError

SUFFIXES = (".e", ".v", ".properties")
_PACKED = ("", ".gz", ".zst")
_LARGEST_PROPERTIES_BYTES = 1 << 20


@dataclass(frozen=True)
class DataSet:
    """The files of one data set and what its properties say."""

    edges: str
    vertices: str | None
    directed: bool | None = None
    names: tuple[str, ...] = ()
    edge_count: int | None = None
    vertex_count: int | None = None


def open_graphalytics(paths: Sequence[str], options: ReadOptions) -> TextSource:
    """Open a data set by any of its files, its folder, or its path without suffix."""
    data = find_data_set(paths)
    view = peek(data.edges)
    line = next((text for _, _, text in view.lines() if not is_comment(text)), b"")
    fields = split_fields(line, "") or ["0", "0"] + ["0"] * len(data.names)
    if data.names and len(fields) != 2 + len(data.names):
        raise InputError(
            f"{len(data.names)} edge properties are declared, a line has {len(fields)} fields",
            path=data.edges,
            advice="expected 'source target' and one field per property",
        )
    if not line and data.edge_count is None and data.vertices is None:
        raise InputError("no edges in the file", path=data.edges, advice="expected 'source target'")
    weight = _weight(data, options, fields)
    grammar = LineGrammar(
        fields=max(2, len(fields)),
        weight=weight,
        weight_type=options.column_type if weight >= 0 else None,
    )
    return TextSource(
        "graphalytics",
        (text_file(view, grammar, view.skipped, data.edge_count),),
        options.is_directed(data.directed is True),
        vertex_file=data.vertices,
        declared_vertices=data.vertex_count,
    )


def _weight(data: DataSet, options: ReadOptions, fields: Sequence[str]) -> int:
    """Position of the weights: the one that was chosen, the one so named, or the only one."""
    if options.no_weight:
        return -1
    chosen = options.weight_column
    if chosen is not None:
        return _chosen(chosen, data, len(fields))
    if "weight" in data.names:
        return 2 + data.names.index("weight")
    lone = len(fields) == 3 and is_number(fields[2])
    return 2 if lone and len(data.names) in {0, 1} else -1


def _chosen(column: Column, data: DataSet, fields: int) -> int:
    if isinstance(column, str) and column in data.names:
        return 2 + data.names.index(column)
    if (isinstance(column, int) or is_count(column.encode())) and 2 <= int(column) < fields:
        return int(column)
    raise UsageError(
        f"{data.edges}: no weight {column!r}; there are {', '.join(data.names) or 'none'}"
    )


def find_data_set(paths: Sequence[str]) -> DataSet:
    """Files of the data set that ``paths`` (one or more of its files, or its folder) belong to."""
    given = [stem_of(path) for path in _expand(paths)]
    if len(set(given)) != 1:
        raise InputError(
            "more than one LDBC data set",
            path=paths[0],
            advice="name one: " + ", ".join(sorted({Path(stem).name for stem in given})),
        )
    stem = Path(given[0])
    properties = _beside(stem, ".properties")
    if properties is not None:
        return _from_properties(properties, stem)
    edges = _beside(stem, ".e")
    if edges is None:
        raise InputError("no .e file", path=str(stem), advice="expected NAME.e beside NAME.v")
    return DataSet(edges, _beside(stem, ".v"))


def _expand(paths: Sequence[str]) -> list[str]:
    found: list[str] = []
    for path in paths:
        if Path(path).is_dir():
            inside = sorted(str(p) for p in Path(path).iterdir() if stem_of(str(p)) != str(p))
            if not inside:
                raise InputError("no .e, .v or .properties file", path=path)
            found += inside
        else:
            found.append(path)
    return found


def stem_of(path: str) -> str:
    """Path, or URL, of a data set by that of one of its files; others as they are."""
    for packed in _PACKED:
        for suffix in SUFFIXES:
            if path.endswith(suffix + packed):
                return path[: -len(suffix + packed)]
    return path


def files_beside(stem: str) -> list[str]:
    """Paths, or URLs, of all files that a data set may have."""
    return [f"{stem}{suffix}{packed}" for suffix in SUFFIXES for packed in _PACKED]


def _beside(stem: Path, suffix: str) -> str | None:
    names = (Path(f"{stem}{suffix}{packed}") for packed in _PACKED)
    try:
        return next((str(path) for path in names if path.is_file()), None)
    except OSError:  # no file has such a name
        return None


def _from_properties(path: str, stem: Path) -> DataSet:
    values = _read_properties(path)
    folder = Path(path).parent
    edges = _listed(folder, values.get("edge-file", f"{stem.name}.e"))
    if edges is None:
        raise InputError(
            f"the edge file {values.get('edge-file', stem.name + '.e')!r} is not there", path=path
        )
    names = values.get("edge-properties.names", "")
    return DataSet(
        edges,
        _listed(folder, values.get("vertex-file", f"{stem.name}.v")),
        directed=_truth(path, values.get("directed")),
        names=tuple(name.strip() for name in names.split(",") if name.strip()),
        edge_count=_count(path, values.get("meta.edges")),
        vertex_count=_count(path, values.get("meta.vertices")),
    )


def _listed(folder: Path, name: str) -> str | None:
    """A file that the properties name, packed or not; only in the folder itself."""
    stem = folder / Path(name).name
    return _beside(stem.with_suffix(""), stem.suffix) if stem.suffix else _beside(stem, "")


def _read_properties(path: str) -> dict[str, str]:
    view = memoryview(bytearray(_LARGEST_PROPERTIES_BYTES))
    with ByteReader(path) as reader:
        text = bytes(view[: reader.fill(view)]).decode("utf-8", "replace")
    values = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        words = key.strip().split(".", 2)
        if equals and not line.lstrip().startswith("#") and words[0] == "graph" and len(words) == 3:
            values[words[2]] = value.strip()
    return values


def _truth(path: str, word: str | None) -> bool | None:
    if word is None:
        return None
    if word.lower() not in {"true", "false"}:
        raise InputError(f"directed = {word!r}", path=path, advice="expected true or false")
    return word.lower() == "true"


def _count(path: str, word: str | None) -> int | None:
    if word is None:
        return None
    if not is_count(word.encode()):
        raise InputError(f"the count {word!r} is no number", path=path)
    return int(word)
