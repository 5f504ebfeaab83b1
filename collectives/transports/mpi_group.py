"""The MPI side of one worker process: its communicator, and lanes to other ranks.

    rank 2 ══ lane ══ rank 5     first messages, in order, from and into the same few buffers
           ── beside ──          large arrays, each with a request of its own

A request that is made once and started for every message (MPI calls it persistent) costs a third of
one that is made anew, and a receive that is started beforehand needs no probe. MPI keeps the order
of a lane; who wants a later message first finds the step in it, and puts the others aside.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from time import monotonic, sleep
from typing import Any

from numpy.typing import NDArray

from daskpart.errors import InputError

from .mpi_messages import FIRST_BYTES, Form, Message, Outgoing, write_step

_GROUP_TAGS = 32_749  # within every tag bound, which is at least 32 767
_MOST_LETTERS = 32  # of a lane
_LETTERS_BYTES = 4 * FIRST_BYTES  # of all of them
_SWEEP_SECONDS = 2.0


class WorkerGroup:
    """The MPI side of one worker process, for the worker processes of a run.

    Parameters
    ----------
    members : tuple of int
        Ranks of the worker processes in MPI.COMM_WORLD, rising.
    run_id : str
        Hexadecimal.
    """

    def __init__(self, members: tuple[int, ...], run_id: str) -> None:
        from mpi4py import MPI

        if MPI.Query_thread() != MPI.THREAD_MULTIPLE:
            raise InputError(
                "MPI was started without THREAD_MULTIPLE, but ranks are threads of a worker; "
                "start the job without mpi4py.rc.threads = False."
            )
        self.mpi = MPI
        group = MPI.COMM_WORLD.Get_group().Incl(members)
        bound = MPI.COMM_WORLD.Get_attr(MPI.TAG_UB)
        assert isinstance(bound, int)  # MPI always sets it
        self.tags = bound + 1
        # two runs may begin at once between the same workers: their tags differ
        self.comm = MPI.COMM_WORLD.Create_group(group, int(run_id, 16) % _GROUP_TAGS)
        group.Free()
        # requests and their buffers, some of receives that were given up
        self._sent: deque[tuple[Any, Any]] = deque()
        self._lanes: list[Lane] = []
        self._lock = threading.Lock()

    def lane(self, process: int, send_tag: int, receive_tag: int) -> Lane:
        """A new lane; it ends with the group."""
        lane = Lane(self, process, send_tag, receive_tag)
        with self._lock:
            self._lanes.append(lane)
        return lane

    def start_send(self, buffer: Any, process: int, tag: int) -> Any:
        """Begin to send; the buffer is kept until it is sent. The request."""
        kind = [buffer, self.mpi.BYTE]
        with self._lock:
            request = self.comm.Isend(kind, process, tag)
            self._sent.append((request, buffer))
            while self._sent and self._sent[0][0].Test():  # else a long batch keeps all its buffers
                self._sent.popleft()
        return request

    def give_up(self, request: Any, buffer: Any) -> None:
        """Receive no more; the buffer is kept until MPI has let go of it."""
        request.Cancel()
        with self._lock:
            self._sent.append((request, buffer))

    def are_sent(self, requests: list[Any]) -> bool:
        """Whether these are sent; makes progress. Two threads must not test one request at once."""
        with self._lock:
            return all([request.Test() for request in requests])

    def all_sent(self) -> bool:
        """Whether nothing waits to be sent any more; makes progress."""
        with self._lock:
            self._sent = deque(entry for entry in self._sent if not entry[0].Test())
            return not self._sent

    def sweep(self) -> None:
        """Take in and drop what nobody waits for any more, and let go of what is not sent."""
        limit, quiet = monotonic() + _SWEEP_SECONDS, 0
        while monotonic() < limit and quiet < 3:
            status = self.mpi.Status()
            message = self.comm.Improbe(self.mpi.ANY_SOURCE, self.mpi.ANY_TAG, status)
            if message is None:
                quiet = quiet + 1 if self.all_sent() else 0
                sleep(1e-3)
                continue
            quiet = 0
            taken = message.Irecv([bytearray(status.Get_count(self.mpi.BYTE)), self.mpi.BYTE])
            while not taken.Test() and monotonic() < limit:
                self.all_sent()

    def close(self, whole: bool) -> None:
        """End the lanes, and free the communicator if the run was closed and not broken off.

        Else what others may still send would meet a later group.
        """
        all_free = all([lane.close() for lane in self._lanes])
        if whole and self.all_sent() and all_free:
            self.comm.Free()


class Lane:
    """First messages between a rank of this process and one of another; of one thread.

    Parameters
    ----------
    group : WorkerGroup
    process : int
        Where the other rank is.
    send_tag, receive_tag : int
        Of this lane alone.

    Attributes
    ----------
    incoming : bytearray
        Where the next message arrives.
    request : mpi4py.MPI.Prequest
        Receives it; `start` and `test` are its methods, for loops where a look-up counts.
    expecting, come : bool
        Whether the request was started for the next message, and whether that was seen to be there.
    """

    def __init__(self, group: WorkerGroup, process: int, send_tag: int, receive_tag: int) -> None:
        self._group, self._process, self._tag = group, process, send_tag
        self._letters: dict[Form, Letter] = {}  # the oldest first
        self._letters_bytes = 0
        self._guess: Form | None = None  # what came last
        self.incoming = bytearray(FIRST_BYTES)
        kind = [self.incoming, group.mpi.BYTE]
        self.request = group.comm.Recv_init(kind, process, receive_tag)
        self.start, self.test = self.request.Start, self.request.Test
        self.expecting = self.come = False

    def send(self, step: int, message: Outgoing) -> None:
        """Begin to send the first message; waits for nothing."""
        letter = None if message.object else self.letter(message.form)
        if letter is not None and letter.send(step, message.small):
            return
        buffer = bytearray(message.nbytes)
        message.write(buffer, step)
        self._group.start_send(buffer, self._process, self._tag)

    def letter(self, form: Form) -> Letter | None:
        """For first messages of this form; None if there are too many, all in use."""
        return self._letters.get(form) or self._new_letter(form)

    def _new_letter(self, form: Form) -> Letter | None:
        """A letter in place of others, if there are too many; None if those are in use."""
        for oldest, letter in list(self._letters.items()):
            if self._has_room(form):
                break
            if not letter.users and letter.end():
                del self._letters[oldest]
                self._letters_bytes -= oldest.nbytes
        if not self._has_room(form):
            return None
        buffer = bytearray(form.nbytes)
        kind = [buffer, self._group.mpi.BYTE]
        request = self._group.comm.Send_init(kind, self._process, self._tag)
        letter = self._letters[form] = Letter(request, buffer, form)
        self._letters_bytes += form.nbytes
        return letter

    def _has_room(self, form: Form) -> bool:
        """Whether a letter of this form may be added; one always may."""
        few = len(self._letters) < _MOST_LETTERS
        return not self._letters or (few and self._letters_bytes + form.nbytes <= _LETTERS_BYTES)

    def expect(self) -> None:
        """Make ready for the next message, which then needs no place in between."""
        if not self.expecting:
            self.start()
            self.expecting = True

    def taken(self) -> None:
        """The message is not needed any more."""
        self.expecting = self.come = False

    def read(self) -> Message:
        """The message that has come."""
        message = Message(self.incoming, self._guess)
        self._guess = message.form
        self.taken()
        return message

    def is_sent(self) -> bool:
        """Whether everything was sent; makes progress."""
        return all([letter.request.Test() for letter in self._letters.values()])

    def close(self) -> bool:
        """Let go of the requests; whether none was on its way."""
        all_free = True
        if self.expecting and not self.come:
            self.request.Cancel()
        for request in (self.request, *[letter.request for letter in self._letters.values()]):
            if request.Test():
                request.Free()
            else:  # its buffer must stay
                all_free = False
                _unfinished.append(self)
        return all_free


class Letter:
    """A first message of one form: only the step and the arrays change.

    Parameters
    ----------
    request : mpi4py.MPI.Prequest
        Sends the buffer.
    buffer : bytearray
    form : Form

    Attributes
    ----------
    request : mpi4py.MPI.Prequest or None
        None at the end; `start` and `test` are its methods.
    places : list of ndarray
        Where the arrays lie in the buffer.
    users : int
        How many will use it again: until then it must not end.
    """

    __slots__ = ("buffer", "places", "request", "start", "test", "users")

    def __init__(self, request: Any, buffer: bytearray, form: Form) -> None:
        self.request, self.buffer = request, buffer
        self.start, self.test = request.Start, request.Test
        self.users = 0
        form.open(buffer)
        self.places = form.arrays_in(buffer)

    def send(self, step: int, arrays: Sequence[NDArray[Any]]) -> bool:
        """Begin to send; False, if the one before is not sent yet, or this is at an end."""
        if self.request is None or not self.test():
            return False
        write_step(self.buffer, 0, step)
        for number, array in enumerate(arrays):  # quicker than zip, whose strict costs 0.2 µs
            self.places[number][...] = array
        self.start()
        return True

    def end(self) -> bool:
        """Let go of the request; False if it is on its way."""
        if not self.request.Test():
            return False
        self.request.Free()
        self.request = None
        return True


_unfinished: list[Lane] = []  # of runs that were broken off
