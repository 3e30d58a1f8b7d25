"""What the libraries of stores raise, as errors of this package that name the URL and no secret."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ooc_graph.errors import (
    InputError,
    MissingFileError,
    MissingLibraryError,
    NetworkError,
    OocGraphError,
)
from ooc_graph.layout.whole_file import is_disk_full
from ooc_graph.remote.urls import lacking, scheme_of, shown

NO_SUCH = "no such file, folder or bucket"
"""What is the problem where there is nothing at a URL."""
_MISSING, _REFUSED = (404, 410), (401, 403, 407)
_NO_CREDENTIALS = (
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "TokenRetrievalError",
    "DefaultCredentialsError",
    "RefreshError",
    "ClientAuthenticationError",
)
"""Names of classes, of libraries that need not be installed."""
_LOOK = "look at the URL, and at what its library needs in the environment"
_OF_NETWORKS = ("aiohttp", "aiobotocore", "botocore", "azure", "google", "gcsfs", "requests")


@contextmanager
def faults_of(url: str, *, writing: bool = False) -> Iterator[None]:
    """Context of calls that read a URL, or write to it; their errors become errors of this package.

    What the libraries say may have the whole URL in it, so none of it is passed on.

    Raises
    ------
    InputError
        There is no such file or bucket, or no permission.
    NetworkError
        Anything that may be otherwise later.
    UsageError
        A library is missing.
    """
    try:
        yield
    except OocGraphError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and is_disk_full(error):
            raise
        raise _own(error, url, *(("write", "written") if writing else ("read", "read"))) from None


def _own(error: Exception, url: str, do: str, done: str) -> OocGraphError:
    if isinstance(error, ImportError):
        return MissingLibraryError(f"{shown(url)}: {lacking(scheme_of(url))}")
    chain = list(_chain(error))
    status = next((found for one in chain if (found := _status(one)) is not None), None)
    if status in _REFUSED or (status is None and any(map(_is_refusal, chain))):
        return InputError(
            f"no permission to {do} it",
            path=shown(url),
            advice="credentials come from the environment, as its library reads them",
        )
    if status in _MISSING or (status is None and _is_missing(chain)):
        return MissingFileError(NO_SUCH, path=shown(url))
    kind = type(chain[0]).__name__
    what = kind if status is None else f"status {status}"
    if status is not None or (any(map(_is_of_network, chain)) and not _is_of_url(chain[0])):
        return NetworkError(f"{shown(url)}: the server cannot be {done} now ({what}); try again")
    return InputError(f"cannot be {done} ({what})", path=shown(url), advice=_LOOK)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The first cause of an error, what that led to, and so on."""
    if error is not None:
        yield from _chain(error.__cause__ or error.__context__)
        yield error


def _status(error: BaseException) -> int | None:
    """Status of HTTP that an error is about."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        names = ("status", "status_code", "code")
        found = next((getattr(error, name) for name in names if hasattr(error, name)), None)
    return found if isinstance(found, int) and found >= 400 else None


def _is_refusal(error: BaseException) -> bool:
    is_google = type(error) is OSError and str(error).startswith("Forbidden: ")
    is_kind = isinstance(error, PermissionError) or type(error).__name__ in _NO_CREDENTIALS
    return is_kind or is_google


def _is_missing(chain: list[BaseException]) -> bool:
    # fsspec says it also where a server is not reached, with that as the cause.
    return isinstance(chain[0], FileNotFoundError)


def _is_of_url(error: BaseException) -> bool:
    # Only of the first cause: fsspec turns many errors into FileNotFoundError. What is wrong with a
    # certificate is a ValueError as well as an OSError, and is the network's.
    is_value = isinstance(error, ValueError) and not isinstance(error, OSError)
    return is_value or type(error).__name__ == "ParamValidationError"


def _is_of_network(error: BaseException) -> bool:
    module = type(error).__module__.partition(".")[0]
    return isinstance(error, OSError | TimeoutError) or module in _OF_NETWORKS
