"""TopK by layer as a hook of torch's DistributedDataParallel, where torch is installed."""

from __future__ import annotations

import pickle
import socket

import numpy as np
import pytest

from daskpart.collectives import TopK
from daskpart.errors import InputError
from daskpart.models.optimisation.torch_hook import TopKState, topk_hook

torch = pytest.importorskip("torch")


def test_what_is_sent_and_kept_is_that_of_top_k():
    random = np.random.default_rng(0)
    for n, k, bucket in ((40, 3, 8), (38, 3, 8), (5, 9, 512), (16, 16, 16)):
        state, gradient = TopKState(k, bucket), random.normal(size=(n, 1))
        indices, values = state.select(0, torch.tensor(gradient))
        expected = TopK(k, bucket).selected(gradient.ravel())
        assert sorted(indices.tolist()) == expected.tolist()
        np.testing.assert_array_equal(values, gradient.ravel()[indices])
        kept = gradient.ravel().copy()
        kept[expected] = 0
        np.testing.assert_array_equal(state.residuals[0], kept)
        later, _ = state.select(0, torch.zeros(n, dtype=torch.float64))
        assert not set(later.tolist()) & set(np.flatnonzero(kept == 0)) or k >= min(n, bucket)


def test_every_rank_sends_as_much_whatever_its_zeros():
    """The padding of the last bucket is no smaller than an entry that is zero."""
    for n, k, bucket, sent in ((10, 3, 8, 5), (9, 3, 8, 4), (3, 2, 8, 2)):
        for nonzeros in range(n + 1):
            gradient = torch.zeros(n)
            gradient[:nonzeros] = 1.0
            indices, _ = TopKState(k, bucket).select(0, gradient)
            assert len(set(indices.tolist())) == sent


def test_a_parameter_gives_its_number_to_no_other_one():
    """Also when it is gone, and another lies where it lay."""
    state = TopKState(k=1)
    for number in range(50):
        parameter = torch.nn.Parameter(torch.ones(3))
        assert state.place_of(parameter) == state.place_of(parameter) == number
        del parameter


def test_what_was_not_sent_goes_on_from_a_checkpoint():
    """Parameters of another process are others, in the same order."""
    state = TopKState(k=2, bucket=8)
    for parameter in network().parameters():
        state.select(state.place_of(parameter), torch.rand(parameter.shape, dtype=torch.float64))
    again = pickle.loads(pickle.dumps(state))
    layers = list(network().parameters())
    assert [again.place_of(layer) for layer in layers] == list(range(len(layers)))
    for place, layer in enumerate(layers):
        of_both = [each.select(place, torch.zeros_like(layer))[1] for each in (state, again)]
        np.testing.assert_array_equal(*of_both)
        assert of_both[0].any()
    with pytest.raises(InputError, match=r"residuals\[1\] has 20 entries, the layer 1: .* network"):
        again.select(1, torch.zeros(1, dtype=torch.float64))


def network():
    torch.manual_seed(0)
    layers = (torch.nn.Linear(6, 20), torch.nn.ReLU(), torch.nn.Linear(20, 3))
    return torch.nn.Sequential(*layers).double()


def samples():
    random = np.random.default_rng(1)
    X = torch.tensor(random.normal(size=(60, 6)))
    return X, (X @ torch.tensor(random.normal(size=(6, 3)))).argmax(dim=1)


def train(model, X, y) -> tuple[list[float], np.ndarray]:
    """Losses of each step, and the weights at the end."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(X), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, torch.cat([each.detach().flatten() for each in model.parameters()]).numpy()


def train_rank(rank: int, port: int, k: int, queue) -> None:
    """Train on half of the samples."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    X, y = samples()
    model, state = DistributedDataParallel(network()), TopKState(k, bucket=16)
    model.register_comm_hook(state, topk_hook)
    losses, weights = train(model, X[rank::2], y[rank::2])
    queue.put((rank, losses, weights, state.sent))
    dist.destroy_process_group()


def trained(k: int) -> list[tuple]:
    import torch.multiprocessing as mp

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = mp.get_context("spawn")
    queue = context.Queue()
    ranks = [context.Process(target=train_rank, args=(rank, port, k, queue)) for rank in (0, 1)]
    for process in ranks:
        process.start()
    found = sorted(queue.get(timeout=300) for _ in ranks)
    for process in ranks:
        process.join()
    return found


def test_two_processes_learn_with_it_and_with_all_entries_it_is_plain_sgd():
    _, plain = train(network(), *samples())
    whole, few = trained(16), trained(2)
    np.testing.assert_allclose(whole[0][2], plain, rtol=1e-9, atol=1e-12)
    for one, other in (whole, few):
        np.testing.assert_array_equal(one[2], other[2])  # ranks stay equal to the bit
    assert 0 < few[0][3] < 0.2 * whole[0][3]
    assert few[0][1][-1] < 0.6 * few[0][1][0]


def test_bad_input():
    for bad in ({"k": 0}, {"k": 1, "bucket": 0}):
        with pytest.raises(InputError, match="is 0"):
            TopKState(**bad)
