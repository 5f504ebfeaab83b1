"""Tasks of the graph transport: how they are pinned, and what they do on a worker.

    (update-…-4, rank)                  state of a rank
    (pack-…-5, source, destination)     one message, made where the source lives
    (combine-…-6, rank)                 all messages to a rank, combined where it lives

A task of a round gets halves of rounds of its rank, and the place of this one's among them.
The second part of a key is the rank whose worker runs the task. The pin is an annotation of the
layer, and arrays' optimisation would drop it: so ranks live in a collection of their own
(`RankCollection`) that is only culled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from traceback import walk_tb
from typing import Any

from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from daskpart._floor.blas import one_blas_thread
from daskpart._floor.rank_tasks import RankPlacement
from daskpart._floor.words import words_of
from daskpart.collectives.counters import value_bytes
from daskpart.collectives.messages import RankExchange, RankMessages
from daskpart.collectives.timeline import name_of, now
from daskpart.collectives.values import duplicate

from .measures import Note, record

Mark = tuple[str, int]  # of a step: the run and the step's number
_MOST_FRAMES = 100  # of a traceback; a pickle of some hundred is none that a client can read


def pinned_graph(tasks: dict, placement: RankPlacement | None, known: dict) -> HighLevelGraph:
    """One layer of tasks, pinned where there is a placement, beside a layer of known values."""
    pins = {"workers": placement, "allow_other_workers": False} if placement else None
    layers = {"ranks": MaterializedLayer(tasks, annotations=pins)}
    dependencies: dict[str, set[str]] = {"ranks": set()}
    if known:
        layers["settled"] = MaterializedLayer(known)
        dependencies = {"ranks": {"settled"}, "settled": set()}
    return HighLevelGraph(layers, dependencies)


def run_step(
    mark: Mark,
    rank: int,
    function: Callable,
    static: dict,
    overwrites: bool,
    arriving: list | None,
    *values: Any,
) -> Any:
    """``function(*values, **static)`` on one rank, with a copy of a first value that it overwrites.

    What is `arriving`, its half of a round as in `run_pack` and the messages, becomes an inbox
    behind that one.
    """
    own = list(values)
    if overwrites:
        own[0] = _on_rank(rank, duplicate, own[0])  # Dask may need the old one again
    begin = now()
    if arriving is not None:
        halves, slot, payloads = arriving
        own.insert(int(overwrites), _on_rank(rank, halves[slot].incoming, list(payloads)))
    result = _on_rank(rank, partial(function, **static), *own)
    run, step = mark
    record(run, (step, rank), Note(begin, now(), name_of(function)))
    return result


def run_pack(mark: Mark, pack: Callable, index: int, halves: list, slot: int, value: Any) -> Any:
    """Make one message of the round at a place among the rank's."""
    own: RankMessages | RankExchange = halves[slot]
    begin = now()
    (sent,) = _on_rank(own.rank, own.messages, value, pack, index)
    run, step = mark
    note = Note(begin, now(), rows=sent.rows, nbytes=sent.nbytes)
    record(run, (step, own.rank, sent.destinations[0]), note)
    return sent.payload


def run_fold(mark: Mark, function: Callable, static: dict, values: list) -> Any:
    """Fold the values of all ranks; notes the star of messages that this stands for."""
    run, step = mark
    begin = now()
    result = _on_rank(0, partial(function, **static), list(values))
    record(run, (step, 0), Note(begin, now(), name_of(function)))
    back = value_bytes(result)
    for rank, value in enumerate(values):
        if rank:
            record(run, (step, rank, 0), Note(nbytes=value_bytes(value)))
            record(run, (step + 1, 0, rank), Note(nbytes=back))
    return result


def _on_rank(rank: int, work: Callable, *arguments: Any) -> Any:
    """``work(*arguments)``; what it raises names the rank, and comes to the client.

    That would wait for ever where Dask can't pickle a traceback, as it is too deep: Dask sends
    words in its place, and the client drops them and the error.
    """
    try:
        with one_blas_thread:
            return work(*arguments)
    except BaseException as error:
        # a worker would end with what ends a program, as of sys.exit, and then the next one that is
        # given the step; on the main thread it may be the user's own Ctrl-C
        is_helper = threading.current_thread() is not threading.main_thread()
        if not isinstance(error, Exception) and is_helper:
            error = RuntimeError(f"a step ended with {words_of(error)}")
        try:
            f"{error}{error!r}"  # as Dask will, and where that raises it tells nobody of the error
        except Exception:
            error = RuntimeError(f"a step raised {words_of(error)}")
        error.add_note(f"on rank {rank}")
        if len(list(walk_tb(error.__traceback__))) > _MOST_FRAMES:
            raise error.with_traceback(None) from error.__cause__
        raise error
