"""What a fit will do, before it does it: vertices dealt to ranks, every message of an epoch.

    A ─► column-net hypergraph with self loops ─► Partition ─► Connectivity ─► expand of H
                                                                Aᵀ ─► ……………… ─► expand of G

A net (column j: who reads vertex j) costs the rows that travel, so Σ (λ − 1) is what one product
with Â moves (Demirci et al., VLDB 2022, §4.3.2 and equation 11). A vertex weighs what an epoch
computes for it: the nonzeros of its row of A + I, as in the paper, and as many more as the products
of its row of H with the weights are worth: those are most of the work where layers are wide and
vertices have few edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart import data_models
from daskpart._floor.kernels import working_clock
from daskpart.collectives import Plan
from daskpart.models.base.cutting import Cuts, told_of_cut, weighed_partition
from daskpart.models.base.plan import (
    ALPHA_BETA,
    FitPlan,
    given_partition,
    refuse_empty,
)
from daskpart.models.base.reports import Expected, PlanReport, bytes_words
from daskpart.partitions import Partition

from .communication import COMMUNICATIONS, forecast, product_plan
from .network import LayerSizes, Network

LABELS = ("forward", "backward")
_AT_ONCE_BYTES, _CACHE_LINE = 16 << 20, 64
EPSILON = 0.01  # the imbalance of the paper
# what a name of a partitioner stands for: a data model, and arguments of `daskpart.partition`
PARTITIONERS: dict[str, tuple[str, dict[str, Any]]] = {
    "connectivity": ("column-net-self-loops", {"objective": "connectivity"}),
    "metis": ("graph", {"method": "metis", "objective": "cut-net"}),
    "random": ("column-net-self-loops", {"method": "random"}),
    "block": ("column-net-self-loops", {"method": "block"}),
    "stochastic": ("stochastic", {"objective": "connectivity"}),
}
# what "auto" chooses from
CUTS: dict[str, Any] = {
    "block": "block", "parsa": {"method": "parsa"}, "multilevel": "connectivity",
}  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class GCNPlan(FitPlan):
    """A planned training.

    Attributes
    ----------
    network : Network
    forward, backward : Plan
        Rows of H, and of G, from the owner of a vertex to those that read it.
    n_entries : int64 ndarray of shape (n_ranks,)
        Nonzeros of each rank's rows of Â.
    is_symmetric : bool
        Whether both directions share one matrix, as Âᵀ is Â.
    feature_bytes, value_bytes, label_bytes : int64 ndarray of shape (n_ranks,)
        Of features, or of their product with Â where that is kept; of their values, which dropout
        makes anew, where the places of sparse ones stay; of labels.
    n_trained : int64 ndarray of shape (n_ranks,)
        Vertices of each rank that are trained on.
    n_slots : int
        Numbers that the optimiser remembers of each weight.
    keeps_best : bool
        Whether the weights of the best epoch are kept beside those of the last.
    communication : str
        A name of `communication.COMMUNICATIONS`.
    forecasts : dict of str to float
        Seconds of an epoch's messages by each of them.
    """

    network: Network
    forward: Plan = field(repr=False)
    backward: Plan = field(repr=False)
    n_entries: NDArray[np.int64] = field(repr=False)
    is_symmetric: bool
    feature_bytes: NDArray[np.int64] = field(repr=False)
    value_bytes: NDArray[np.int64] = field(repr=False)
    label_bytes: NDArray[np.int64] = field(repr=False)
    n_trained: NDArray[np.int64] = field(repr=False)
    n_slots: int = 0
    keeps_best: bool = False
    communication: str = "expand"
    forecasts: dict[str, float] = field(default_factory=dict)

    @property
    def decided(self) -> dict[str, str]:
        """Which rows travel."""
        return {"communication": self.communication}

    def plans(self) -> dict[str, Sequence[Plan]]:
        """The messages of one product with Â, and with Âᵀ."""
        return dict(zip(LABELS, ([self.forward], [self.backward]), strict=True))

    @property
    def n_columns_at_once(self) -> int:
        """Columns of a kept product that are made at a time.

        What takes 16 MiB, no fewer than an epoch sends, or a cache line holds.
        """
        itemsize, sizes = np.dtype(self.network.dtype).itemsize, self.sizes
        n_rows = int((sizes.n_own + sizes.n_halo + sizes.n_sent).max())
        widths = [each for way in self.network.passes for each in way]
        return max([_AT_ONCE_BYTES // (itemsize * n_rows), _CACHE_LINE // itemsize, *widths])

    def expected(self) -> Expected:
        """What an epoch will send: equation 11, less what needs not travel."""
        rows, messages = np.zeros((2, self.n_ranks), np.int64)
        both = (self.forward, self.backward)
        for plan, widths in zip(both, self.network.passes, strict=True):
            counted = plan.statistics()
            rows += len(widths) * counted.per_rank("rows_sent")
            messages += len(widths) * counted.per_rank("messages_sent")
        return Expected(
            rows=rows, messages=messages, nbytes=epoch_bytes(both, self.network),
            row_labels=LABELS, message_labels=LABELS,
        )  # fmt: skip

    @cached_property
    def n_own(self) -> NDArray[np.int64]:
        """Vertices of each rank."""
        assert self.partition is not None
        return np.bincount(self.partition.assignment, minlength=self.n_ranks)

    @cached_property
    def n_halo(self) -> NDArray[np.int64]:
        """Vertices of others that each rank reads in a product with Â."""
        return self.forward.traffic().sum(axis=0)

    @property
    def sizes(self) -> LayerSizes:
        """What every layer works on in a full batch."""
        n_sent = self.forward.traffic().sum(axis=1)
        return LayerSizes(self.n_own, self.n_own, self.n_halo, n_sent, self.n_entries)

    def memory(self) -> dict[str, NDArray[np.int64]]:
        """Bytes that each rank will hold at most: what stays over an epoch, and what passes."""
        network, itemsize = self.network, np.dtype(self.network.dtype).itemsize
        matrices, n_own, n_halo = 1 if self.is_symmetric else 2, self.n_own, self.n_halo
        positions = [plan.traffic().sum(axis=way) for plan in (self.forward, self.backward)
                     for way in (0, 1)]  # fmt: skip
        n_copies = self.n_slots + 2 + self.keeps_best
        stays = {
            "graph": matrices * ((4 + itemsize) * self.n_entries + 8 * (n_own + n_halo))
            + 8 * (n_own + np.sum(positions, axis=0)),
            "labels": self.label_bytes,
            "features": self.feature_bytes + (self.value_bytes if network.dropout else 0),
            "halo": itemsize * network.halo_values * n_halo,
            "attention": itemsize * network.entry_values * self.n_entries,
            "weights": np.full(self.n_ranks, n_copies * itemsize * network.n_weights),
        }
        sizes = [self.sizes] * len(network.layers)
        made = enumerate(network.made_bytes(sizes))
        layers = {f"layer {place + 1}": n_bytes for place, n_bytes in made}
        passes = network.passing_bytes(sizes, self.n_trained)
        held = {**stays, **layers, "gradients and messages": passes}
        return {name: each for name, each in held.items() if each.any()}

    def report(self) -> GCNPlanReport:
        """What an epoch costs."""
        assert self.partition is not None
        network, itemsize = self.network, np.dtype(self.network.dtype).itemsize
        forward, backward = network.passes
        n_forward, n_backward = self.forward.total_rows, self.backward.total_rows
        inputs = sum(layer.n_inputs * layer.hops for layer in network.layers)
        outputs = sum(layer.n_outputs * layer.hops for layer in network.layers)
        plain = inputs * (2 if network.n_validation else 1)
        return self._report(
            GCNPlanReport,
            rows_of_product=n_forward,
            rows_of_transposed=n_backward,
            n_forward=len(forward),
            n_backward=len(backward),
            nbytes=epoch_bytes((self.forward, self.backward), network),
            plain_bytes=int(itemsize * (n_forward * plain + n_backward * outputs)),
            messages=int(self.expected().messages.sum()),
            keeps_product=network.layers[0].keeps_product,
            transforms_first=[each.transforms_first for each in network.layers],
            n_entries=self.n_entries,
            n_own=self.n_own,
            n_halo=self.n_halo,
            work_max_to_mean=1 + self.partition.imbalance,
            communication=self.communication,
            forecasts=dict(self.forecasts),
        )


def epoch_bytes(plans: tuple[Plan, Plan], network: Network) -> int:
    """Bytes of an epoch, by the messages of a product with Â, and with Âᵀ."""
    both = zip(plans, network.passes, strict=True)
    n_values = sum(plan.total_rows * sum(widths) for plan, widths in both)
    return np.dtype(network.dtype).itemsize * n_values


def plan_fit(
    problem: Any,
    network: Network,
    n_ranks: int,
    *,
    partitioner: Any,
    communication: str = "expand",
    n_slots: int = 0,
    keeps_best: bool = False,
    sampler: Any = None,
    random_state: int,
    steps: int = 1,
    transport: str = "local",
    kept: Any = None,
    forecasts_memory: bool = True,
) -> GCNPlan:
    """Deal out the vertices and lay out every message of an epoch.

    Parameters
    ----------
    problem : GraphProblem
    network : Network
    n_ranks, partitioner, communication, random_state
        As for `GCNClassifier`, checked.
    n_slots, keeps_best
        As for `GCNPlan`.
    sampler : Sampler or None
        Of the mini-batches that a stochastic model is made of.
    steps, transport, kept : int, str, State or None
        How often an epoch is run, over what (never "auto"), and what it goes on from: for forecasts
        of time.
    forecasts_memory : bool
        Whether somebody reads `GCNPlan.memory`: what features take costs some products to tell.

    Raises
    ------
    InputError
        For more ranks than vertices, or a partition that leaves a rank without any.
    """
    pattern, row_work = problem.pattern, problem.row_work(network)

    def cut(chosen: Any) -> Partition:
        return vertex_partition(pattern, n_ranks, chosen, random_state, sampler, row_work)

    def nbytes(partition: Partition) -> float:
        sends = "broadcast" if communication == "broadcast" else "expand"
        return float(epoch_bytes(_products(problem, partition, sends), network))

    begin = working_clock()
    if isinstance(partitioner, str) and partitioner == "auto":
        cuts = Cuts(lambda name: cut(CUTS[name]), nbytes, lambda: pattern.nnz)
        partition = weighed_partition(cuts, n_ranks, steps, transport, kept)
    else:
        partition = cut(partitioner)
    seconds = working_clock() - begin
    partition.check_fits(pattern.shape[0], "the graph", "vertices")  # not one of its edges
    refuse_empty(partition, "vertices")
    communication, (forward, backward), forecasts = _messages(
        problem, partition, network, communication, transport
    )
    none = np.zeros((2, n_ranks), np.int64)
    held, values = problem.feature_bytes(partition, network) if forecasts_memory else none
    return GCNPlan(
        n_ranks=n_ranks,
        random_state=random_state,
        partition=partition,
        **told_of_cut(partition, partitioner),
        seconds=seconds,
        network=network,
        forward=forward,
        backward=backward,
        n_entries=problem.entries_of_ranks(partition, network.operator),
        is_symmetric=network.returns_halo or (problem.is_symmetric and network.operator != "mean"),
        feature_bytes=held,
        value_bytes=values,
        label_bytes=problem.label_bytes(partition),
        n_trained=np.bincount(partition.assignment[problem.training], minlength=n_ranks),
        n_slots=n_slots,
        keeps_best=keeps_best,
        communication=communication,
        forecasts=forecasts,
    )


def _messages(
    problem: Any, partition: Partition, network: Network, communication: str, transport: str
) -> tuple[str, tuple[Plan, Plan], dict[str, float]]:
    """How rows are sent, the messages of both products, and the seconds that each way would take.

    "auto" is the way that takes least.
    """
    forward, backward = _products(problem, partition, "expand")
    forecasts = forecast(
        [*zip((forward, backward), network.passes, strict=True)],
        np.bincount(partition.assignment, minlength=partition.n_parts),
        np.dtype(network.dtype).itemsize,
        *ALPHA_BETA[transport],
    )
    if communication == "auto":
        communication = min(COMMUNICATIONS, key=forecasts.__getitem__)
    if communication != "expand":
        forward, backward = _products(problem, partition, communication)
    if network.returns_halo:
        backward = forward.reversed()
    return communication, (forward, backward), forecasts


def _products(problem: Any, partition: Partition, communication: str) -> tuple[Plan, Plan]:
    """Messages of a product with Â, and with Âᵀ."""
    pattern = problem.pattern
    patterns = [pattern] if problem.has_symmetric_pattern else [pattern, pattern.T.tocsr()]
    plans = [product_plan(each, partition, communication) for each in patterns]
    return plans[0], plans[-1]


def vertex_partition(
    pattern: Any,
    n_ranks: int,
    partitioner: Any,
    random_state: int,
    sampler: Any = None,
    row_work: int = 0,
) -> Partition:
    """Vertices dealt out to ranks; `partitioner` as for `GCNClassifier`, `pattern` with loops.

    A vertex weighs its nonzeros and `row_work`; in a data model that is named, what it says.
    """
    from daskpart.partitioners import looks_at_nets  # ranks cut nothing
    from daskpart.partitioners import partition as make_partition

    n = pattern.shape[0]
    weights = np.diff(pattern.indptr).astype(np.int64) + row_work
    chosen = given_partition(partitioner, n, n_ranks, lambda: weights, "the graph", "vertices")
    if chosen is not None:
        return chosen
    if n_ranks == 1:
        return Partition(np.zeros(n, np.int32), 1, weights, {})
    if isinstance(partitioner, str):
        name, given = PARTITIONERS[partitioner]
    else:
        name = partitioner.get("model", "column-net-self-loops")
        row_work = 0 if "model" in partitioner else row_work
        given = {key: value for key, value in partitioner.items() if key != "model"}
    model: Any = name
    if name == "graph":
        model = data_models.graph(pattern, self_loops=True)
    elif name == "column-net-self-loops":
        nets = looks_at_nets(given.get("method", "auto"))
        model = data_models.column_net_self_loops(pattern, nets=nets)
    elif name == "stochastic":
        model = data_models.stochastic(pattern, n_ranks, sampler=sampler, random_state=random_state)
    options = {"random_state": random_state, "epsilon": EPSILON, **given}
    if isinstance(model, str):
        return make_partition(pattern, n_ranks, model=model, **options)
    return make_partition(model.with_row_work(row_work), n_ranks, **options)


@dataclass(eq=False, repr=False, kw_only=True)
class GCNPlanReport(PlanReport):
    """What one epoch costs on a partition; known before any training.

    Attributes
    ----------
    rows_of_product, rows_of_transposed : int
        Σ (λ − 1): rows that one product with Â, and with Âᵀ, moves.
    n_forward, n_backward : int
        Products of an epoch that send rows.
    nbytes : int
        Of an epoch.
    plain_bytes : int
        The same if H went forward and G backward in every layer (Algorithms 1 and 2).
    messages : int
        Of an epoch.
    keeps_product : bool
        The first layer's product is made once a fit.
    transforms_first : list of bool
        For each layer whether H·W is what travels.
    n_entries, n_own, n_halo : int64 ndarray of shape (n_ranks,)
        Nonzeros, vertices, and vertices of others that arrive.
    work_max_to_mean : float
        Weights of the vertices of the fullest rank over the mean.
    communication : str
        Which rows travel.
    forecasts : dict of str to float
        Seconds of an epoch's messages, by each way to send them.
    """

    rows_of_product: int
    rows_of_transposed: int
    n_forward: int
    n_backward: int
    nbytes: int
    plain_bytes: int
    messages: int
    keeps_product: bool
    transforms_first: list[bool]
    n_entries: NDArray[np.int64]
    n_own: NDArray[np.int64]
    n_halo: NDArray[np.int64]
    work_max_to_mean: float
    communication: str = "expand"
    forecasts: dict[str, float] = field(default_factory=dict)

    _derived = ("volume", "entries_max_to_mean", "rows_max_to_mean")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("n_entries", "n_own", "n_halo"):
            setattr(self, name, np.asarray(getattr(self, name), np.int64))

    @property
    def volume(self) -> int:
        """Rows of an epoch: equation 11, for the products that send."""
        return self.n_forward * self.rows_of_product + self.n_backward * self.rows_of_transposed

    @property
    def entries_max_to_mean(self) -> float:
        """Nonzeros of the fullest rank over the mean."""
        return float(self.n_entries.max() / max(self.n_entries.mean(), 1))

    @property
    def rows_max_to_mean(self) -> float:
        """Vertices of the fullest rank over the mean."""
        return float(self.n_own.max() / max(self.n_own.mean(), 1))

    def rows(self) -> dict[str, str]:
        """Name → value in plain words, in the order shown."""
        saved = 1 - self.nbytes / self.plain_bytes if self.plain_bytes else 0.0
        first = [place + 1 for place, each in enumerate(self.transforms_first) if each]
        how = [
            *(["first product kept"] if self.keeps_product else []),
            *([f"H·W travels in layer {', '.join(map(str, first))}"] if first else []),
        ]
        words = f" ({'; '.join(how)})" if how else ""
        return {
            "rows an epoch": f"{self.volume:,} in {self.n_forward} + {self.n_backward} products "
            "(forward + backward)",
            "rows a product": f"{self.rows_of_product:,} forward, "
            f"{self.rows_of_transposed:,} backward",
            "bytes an epoch": f"{bytes_words(self.nbytes)}, {abs(saved):.0%} "
            f"{'less' if saved >= 0 else 'more'} than H forward and G backward in every layer"
            f"{words}",
            "messages an epoch": f"{self.messages:,}",
            "halo": f"{self.n_halo.mean():,.0f} vertices a rank on average beside "
            f"{self.n_own.mean():,.0f} own",
            "communication": f"{self.communication}; forecast of an epoch's messages: "
            + ", ".join(f"{name} {1e3 * each:.3g} ms" for name, each in self.forecasts.items()),
            "balance": f"work {self.work_max_to_mean:.3f}, nonzeros "
            f"{self.entries_max_to_mean:.3f}, vertices {self.rows_max_to_mean:.3f} (fullest rank "
            "over the mean)",
            **super().rows(),
        }
