"""What an endpoint of MPI holds on to, with a stand-in for MPI: a message that stays on its way."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from daskpart.collectives.transports import mpi, wire
from daskpart.collectives.transports.mailbox import Call, Mailbox, Standing
from daskpart.errors import InputError

CALL = Call(1, 1, "expand 0")


class HalfCome:
    """A message whose beginning is here; MPI writes the rest into its buffer when it comes."""

    def __init__(self):
        self.come = False
        self.header = wire.pack(np.ones(2), tuple(CALL))[0]
        self.given = iter([self])
        self.requests = weakref.WeakSet()

    def Irecv(self, buffer, *of):
        buffer[0][:] = self.header
        request = Request(self)
        self.requests.add(request)
        return request

    def Improbe(self, source=-1, tag=-1, status=None):
        return next(self.given, None)


class Request:
    def __init__(self, message):
        self._message = message

    def Test(self):
        return self._message.come


@pytest.fixture
def message(monkeypatch):
    """A message on its way to process 0, which is all that MPI has for it."""
    message = HalfCome()
    comm = SimpleNamespace(
        size=2, rank=0, Improbe=message.Improbe, Irecv=message.Irecv,
        Isend=lambda buffer, process, tag: SimpleNamespace(Test=lambda: True),
    )  # fmt: skip
    group = SimpleNamespace(Free=lambda: None)
    world = SimpleNamespace(
        Get_group=lambda: SimpleNamespace(Incl=lambda members: group),
        Create_group=lambda group, tag: comm,
    )
    stand_in = SimpleNamespace(
        Query_thread=lambda: 3, THREAD_MULTIPLE=3, ANY_SOURCE=-1, ANY_TAG=-1, BYTE="byte",
        COMM_WORLD=world,
        Status=lambda: SimpleNamespace(Get_count=lambda kind: len(message.header)),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "mpi4py", SimpleNamespace(MPI=stand_in))
    monkeypatch.setattr(mpi, "_SWEEP_SECONDS", 0.05)
    return message


def assert_kept_until_it_comes(message, group):
    gc.collect()
    assert len(message.requests) == 1 and not group.all_sent()
    message.come = True
    assert group.all_sent()
    gc.collect()
    assert not message.requests


def endpoint_with(mailbox):
    """Of rank 0, which may be sent to by rank 1 on another worker."""
    session = SimpleNamespace(
        mailboxes={0: mailbox}, spec=SimpleNamespace(run_id="abc"), group=None,
        joining=threading.Lock(),
    )  # fmt: skip
    endpoint = mpi.MpiEndpoint(session, 0, (0, 1))
    endpoint.connect()
    return endpoint


@pytest.fixture
def endpoint(message):
    """It waits 0.05 s for a message of rank 1."""
    endpoint = endpoint_with(Mailbox(0, timeout=0.05))
    yield endpoint
    assert not endpoint.all_sent()
    assert_kept_until_it_comes(message, endpoint._session.group)
    endpoint.close(whole=False)
    assert not mpi._late


def test_a_sweep_leaves_no_receive_under_way_without_its_buffer(endpoint):
    mpi.take_in_all(SimpleNamespace(endpoint=endpoint))


def test_a_sweep_waits_for_what_has_begun_to_come(message):
    """A later run collects it."""
    mailbox = Mailbox(0, timeout=20.0)
    endpoint = endpoint_with(mailbox)
    whole = threading.Timer(4 * mpi._SWEEP_SECONDS, setattr, (message, "come", True))
    whole.start()
    mpi.take_in_all(SimpleNamespace(endpoint=endpoint))
    whole.join()
    np.testing.assert_array_equal(mailbox.take(CALL, 1), np.ones(2))
    endpoint.close(whole=False)


def test_a_receive_that_takes_too_long_keeps_its_buffer(endpoint):
    with pytest.raises(TimeoutError, match="message of rank 1 did not come whole"):
        endpoint.receive(CALL, 1)


@pytest.mark.parametrize("whole", [False, True])
def test_a_communicator_that_ends_amid_a_receive_keeps_the_buffer(message, whole):
    """MPI writes into it when the rest comes, whoever looks then."""
    endpoint = endpoint_with(Mailbox(0, timeout=0.05))
    with pytest.raises(TimeoutError):
        endpoint.receive(CALL, 1)
    endpoint.close(whole)
    del endpoint
    gc.collect()
    assert len(message.requests) == 1 == len(mpi._late)
    message.come = True
    endpoint_with(Mailbox(0, timeout=0.05)).close(whole=False)
    assert not message.requests and not mpi._late


def test_a_communicator_that_ends_amid_a_send_keeps_the_buffer(message):
    """MPI may read it as long as the other process takes it."""
    endpoint = endpoint_with(Mailbox(0, timeout=0.05))
    endpoint._group.comm.Isend = lambda buffer, process, tag: Request(message)
    endpoint.send(CALL, [1], np.ones(2))
    endpoint.close(whole=False)
    assert len(mpi._late) == 1
    message.come = True
    endpoint_with(Mailbox(0, timeout=0.05)).close(whole=False)
    assert not mpi._late


def test_what_follows_a_message_that_did_not_come_whole_is_not_read(endpoint, message):
    """It may be the rest of that one."""
    with pytest.raises(TimeoutError, match="message of rank 1 did not come whole"):
        endpoint.receive(CALL, 1)
    message.given = iter([message])
    assert not endpoint.take_in()
    with pytest.raises(TimeoutError, match="rank 1 did not come whole before; make a new"):
        endpoint.receive(CALL, 1)
    assert next(message.given) is message


def test_a_communicator_is_emptied_before_it_is_freed(message):
    """Of what nobody took, up to an empty message: the last one of the other process."""

    def still_to_come():
        yield message
        message.header = b""
        yield message

    endpoint, freed_with = endpoint_with(Mailbox(0, timeout=0.05)), []
    endpoint._group.comm.Free = lambda: freed_with.append([*message.given])
    message.come, message.given = True, still_to_come()
    endpoint.close(whole=True)
    assert freed_with == [[]]


def test_a_large_array_travels_in_pieces(message, monkeypatch):
    """Some MPIs count the bytes of a message in 32 bits."""
    monkeypatch.setattr(mpi, "_MOST_BYTES", 100_000)
    endpoint, sent = endpoint_with(Mailbox(0, timeout=0.05)), []
    comm, array = endpoint._group.comm, np.arange(40_000.0)

    def begin_to_send(buffer, process, tag):
        sent.append(bytes(buffer[0]))
        return Request(message)

    def begin_to_receive(buffer, process, tag):
        buffer[0][:] = np.frombuffer(next(pieces), np.uint8)
        return Request(message)

    comm.Isend, comm.Irecv, message.come = begin_to_send, begin_to_receive, True
    endpoint.send(CALL, [1], array)
    message.header, message.given, pieces = sent[0], iter([message]), iter(sent[1:])
    assert [len(piece) for piece in sent[1:]] == [100_000, 100_000, 100_000, 20_000]
    endpoint._mailbox.begin(CALL.run)
    np.testing.assert_array_equal(endpoint.receive(CALL, 1), array)
    assert endpoint._mailbox.standing() == Standing(None, {}, {1: 1})
    with pytest.raises(InputError, match=r"rank 1, which sent none and is in call 1 \(expand 0"):
        endpoint.receive(CALL._replace(number=0), 1)
    endpoint.close(whole=False)
