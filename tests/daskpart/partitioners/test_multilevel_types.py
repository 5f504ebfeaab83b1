"""The search is compiled once, however many parts there are: each further type takes seconds."""

from __future__ import annotations

import subprocess
import sys

CHILD = """
import sys
import warnings
import numpy as np
import scipy.sparse
import daskpart
from daskpart.hypergraph import Hypergraph

warnings.simplefilter("ignore")  # of balance
# as of a hundred thousand ratings: users whose nets cost much together, by a power of many parts
random = np.random.default_rng(0)
users, items = ((random.random(120_000) ** 2 * side).astype(int) for side in (940, 1680))
cells = np.unique(users * 1680 + items)
matrix = scipy.sparse.coo_array((np.ones(cells.size), (cells // 1680, cells % 1680)))
nets = Hypergraph.column_net(matrix)

def types():
    modules = [each for name, each in sys.modules.items() if name.startswith("daskpart.part")]
    held = {name: each for module in modules for name, each in vars(module).items()}
    kernels = {name: each for name, each in held.items() if hasattr(each, "nopython_signatures")}
    return {name: len(each.nopython_signatures) for name, each in kernels.items()}

for objective in ("connectivity", "power"):
    daskpart.partition(nets, 8, objective)
few = types()
for objective in ("connectivity", "power"):
    daskpart.partition(nets, 512, objective)
many = types()
searched = [name for name in few if few[name]]
assert len(searched) > 5, few
print({name: (few[name], many[name]) for name in few if few[name] and many[name] > few[name]})
"""


def test_more_parts_are_no_more_types():
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr[-4000:]
    assert done.stdout.split("\n")[0] == "{}", done.stdout
