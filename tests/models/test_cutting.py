"""Whether a cut pays: weighed on prices, and in a plan on data with structure and without."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import daskpart
from daskpart.models.base.cutting import weighed_cut


def cutter(**sent):
    """Cuts that send so many bytes a step; notes which were made."""
    made = []

    def cut(name):
        made.append(name)
        return name, float(sent[name])

    return cut, made


@pytest.mark.parametrize(
    ("transport", "steps", "sent", "expected", "made"),
    [
        ("local", 10**6, {"block": 1e9}, "block", 1),  # nothing is sent there
        ("mpi", 1, {"block": 1e6}, "block", 1),  # a look would take longer
        ("mpi", 1000, {"block": 1e9, "pilot": 0.99e9}, "block", 2),  # no structure
        ("mpi", 10, {"block": 1e9, "pilot": 1e8}, "pilot", 2),  # the rest is not worth it
        ("mpi", 10000, {"block": 1e9, "pilot": 5e8, "multilevel": 4e8}, "multilevel", 3),
        ("mpi", 10000, {"block": 1e9, "pilot": 5e8, "multilevel": 6e8}, "pilot", 3),
    ],
)
def test_no_more_is_cut_than_pays(transport, steps, sent, expected, made):
    cut, names = cutter(**sent)
    chosen, reason = weighed_cut(cut, 10**6, 4, steps, transport)
    assert (chosen, len(names)) == (expected, made)
    assert reason.startswith(f"{expected}: ")


def blocks_out_of_order(n_blocks=4, size=60):
    """Ratings in blocks, whose rows were shuffled: a cut finds them, the order of rows does not."""
    random = np.random.default_rng(0)
    dense = scipy.sparse.block_diag([random.random((size, size)) < 0.3] * n_blocks).tocsr()
    return scipy.sparse.coo_array(dense[random.permutation(n_blocks * size)].astype(float))


def test_a_plan_says_what_was_weighed():
    ratings = blocks_out_of_order()
    model = daskpart.MatrixFactorization(8, n_ranks=4, partitioner="auto", max_iter=10**5)
    local, over_dask = (model.plan(ratings, transport=name) for name in ("local", "dask"))
    assert local.partitioner.startswith("auto, block: over local")
    assert over_dask.partitioner.startswith(("auto, pilot", "auto, multilevel"))
    assert over_dask.report().volume < 0.5 * local.report().volume
    assert "auto, block" in repr(local.report())
