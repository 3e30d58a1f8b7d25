"""Calls in a process where nothing else is at work: no other test, no cluster, no thread of theirs.

What a process allocates, holds open or has in memory is that of all its threads, and tests that ran
before may have left some.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, TypeVar

Answer = TypeVar("Answer")
LIMIT_S = 280


class _Server(NamedTuple):
    process: BaseProcess
    connection: Connection


_servers: list[_Server] = []


def in_own_process(function: Callable[..., Answer], *arguments: Any) -> Answer:
    """Call a function of a test module elsewhere; one process does all such calls, one by one.

    It is started anew, not forked, with the first call. Arguments and answer are pickled.

    Raises
    ------
    Exception
        What the function raised.
    EOFError
        The process ended meanwhile.
    TimeoutError
        There was no answer for `LIMIT_S` seconds.
    """
    if not _servers:
        _servers.append(_start())
    server = _servers[0]
    try:
        server.connection.send((function, arguments))
        if not server.connection.poll(LIMIT_S):
            raise TimeoutError(f"{function.__name__} has not ended for {LIMIT_S} s")
        is_done, answer = server.connection.recv()
    except BaseException:
        # Whatever it does now, the next call has a process of its own.
        _servers.clear()
        server.process.kill()
        server.process.join()
        server.connection.close()
        raise
    if not is_done:
        raise answer
    found: Answer = answer
    return found


def _start() -> _Server:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    # Python ends daemons at its own end.
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    return _Server(process, ours)


def _serve(connection: Connection) -> None:
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            # Nobody asks any more.
            return
        try:
            answer = True, function(*arguments)
        except Exception as error:  # noqa: BLE001 - raised where it was asked for
            answer = False, error
        connection.send(answer)
