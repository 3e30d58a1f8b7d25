"""What pages with figures need, which the package alone does not bring."""

from importlib.util import find_spec

from ooc_graph.errors import MissingLibraryError


def require_figures(what: str) -> None:
    """MissingLibraryError if ``what``, a page, cannot be written: known before the work begins."""
    if find_spec("matplotlib") is None:
        raise MissingLibraryError(f"{what} needs matplotlib: pip install 'ooc-graph[report]'")
