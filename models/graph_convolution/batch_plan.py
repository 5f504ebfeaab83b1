"""The plan of a training on mini-batches: what they will move in the mean.

    fresh mini-batches ─► for each layer the ranks that read a source ─► Σ (λ − 1), their mean

That is the cut of the stochastic hypergraph that these mini-batches make (one net a source), layer
by layer: `partitioner="stochastic"` makes a partition for which it is small. The mini-batches here
are others than those that such a partition was cut for, as it fits those better than any.

Source: Demirci, Haldar, Ferhatosmanoglu, VLDB 2022, section 4.3.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.containers.matrix import as_matrix
from daskpart.data_models import Adjacency, NeighbourSampler, VertexSampler
from daskpart.errors import InputError
from daskpart.models.base.reports import Expected, number_words

from .batch_memory import BatchCounts, batch_bytes, foreign_pairs
from .network import Network
from .plan import LABELS, GCNPlan, GCNPlanReport
from .problem import GraphProblem
from .sampling import SAMPLERS, Batches, GraphSampler

INDICES = "indices"
_N_DRAWN = 32


def sampler_of(sampler: Any, batch_size: int | float, network: Network) -> GraphSampler:
    """The sampler of a fit, from its name or itself.

    Raises
    ------
    InputError
        For another number of layers than the network has, or layers that a graph for each layer
        does not suit.
    """
    n_layers = sum(layer.hops > 0 for layer in network.layers)
    if isinstance(sampler, str):
        options: dict[str, dict[str, Any]] = {
            "vertex": {},
            "neighbour": {"fanouts": (10,) * n_layers},
            "layer": {"n_layers": n_layers},
        }
        sampler = SAMPLERS[sampler](batch_size, **options[sampler])
    sampler = replace(sampler, size=batch_size)
    if isinstance(sampler, VertexSampler):
        return sampler
    if any(layer.hops > 1 for layer in network.layers):
        raise InputError(
            f"{type(sampler).__name__} draws a graph for each layer, and this network has a layer "
            "of several products: use sampler='vertex', or layers of one product"
        )
    given = len(sampler.fanouts) if isinstance(sampler, NeighbourSampler) else sampler.n_layers
    if given != n_layers:
        raise InputError(
            f"{sampler!r} draws {given} layers, the network has {n_layers}: give as many"
        )
    return sampler


def batches_of(
    problem: GraphProblem, network: Network, sampler: Any, batch_size: Any, seed: int
) -> Batches:
    """What all ranks know of the mini-batches of a fit (InputError for a size beyond the data)."""
    chosen = sampler_of(sampler, batch_size, network)
    by_vertex = isinstance(chosen, VertexSampler)
    n_seeds = problem.n_vertices if by_vertex else int(problem.training.sum())
    if batch_size > n_seeds:
        what = "vertices" if by_vertex else "labelled vertices to train on"
        raise InputError(
            f"batch_size={batch_size!r}, and there are {n_seeds} {what}: give at most as many, a "
            "share below 1, or none for full batches"
        )
    # one that sends nothing works on what the layer behind it reads
    behind = np.cumsum([layer.hops > 0 for layer in reversed(network.layers)])[::-1]
    graph_of = tuple(0 if by_vertex else max(int(n) - 1, 0) for n in behind)
    times = [0] * (max(graph_of) + 1)
    for layer, index in zip(network.layers, graph_of, strict=True):
        times[index] += layer.n_forward + layer.n_backward
    return Batches(
        sampler=chosen,
        n_seeds=n_seeds,
        size=chosen.count(n_seeds),
        graph_of=graph_of,
        times=tuple(times),
        seed=seed,
        rows_are_means=network.operator in ("normalised", "mean"),
        joined=network.joins_columns,
        is_always_the_same=draws_all(chosen, problem, n_seeds),
    )


def draws_all(sampler: GraphSampler, problem: GraphProblem, n_seeds: int) -> bool:
    """Whether every mini-batch has all seeds, and all neighbours."""
    if sampler.count(n_seeds) < n_seeds:
        return False
    if isinstance(sampler, NeighbourSampler):
        return min(sampler.fanouts) >= int(np.diff(problem.pattern.indptr).max())
    return isinstance(sampler, VertexSampler)


def adjacency_of(problem: GraphProblem) -> Adjacency:
    """The graph as samplers read it."""
    return Adjacency.of(as_matrix(problem.pattern))


def seeded(batches: Batches, problem: GraphProblem) -> GraphSampler:
    """The sampler with the seeds of the fit, to draw of the whole graph."""
    sampler = replace(batches.sampler, size=batches.size)
    if isinstance(sampler, VertexSampler):
        return sampler
    return replace(sampler, seeds=np.flatnonzero(problem.training))


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchPlan(GCNPlan):
    """A planned training on mini-batches.

    Attributes
    ----------
    batches : Batches
    rows_of_graphs : float64 ndarray of shape (n_drawn, n_graphs)
        Rows of each graph's halo in mini-batches that were drawn to see.
    rows_of_last : float64 ndarray of shape (n_graphs,)
        The same of the last mini-batch of an epoch, which may be smaller; in the mean.
    n_vertices : float
        Of a mini-batch, in the mean.
    counts : BatchCounts
        Of one, on each rank.
    of_label : int
        Bytes of the label of a vertex, with its place.
    """

    batches: Batches
    rows_of_graphs: NDArray[np.float64] = field(repr=False)
    rows_of_last: NDArray[np.float64] = field(repr=False)
    n_vertices: float
    counts: BatchCounts = field(repr=False)
    of_label: int = field(repr=False)

    def expected(self) -> Expected:
        """Nothing exact: what is drawn decides. Says which rounds count."""
        nothing = np.zeros(0, np.int64)
        return Expected(
            rows=nothing, messages=nothing, nbytes=None, row_labels=LABELS,
            message_labels=(*LABELS, INDICES),
        )  # fmt: skip

    def memory(self) -> dict[str, NDArray[np.int64]]:
        """What stays for the fit, with what mini-batches are drawn from; and one of them.

        Where the whole graph is validated between them, also what that takes beyond one.
        """
        network, batches, found = self.network, self.batches, super().memory()
        itemsize, n_own, n_halo = np.dtype(network.dtype).itemsize, self.n_own, self.n_halo
        features = self.feature_bytes  # once: some of them are dropped of a mini-batch only
        n_loops = n_own if network.operator != "mean" else 0
        n_seeds = n_own if isinstance(batches.sampler, VertexSampler) else self.n_trained
        # of every vertex, own and of the halo, its number, and in which mini-batch it is or how
        # likely it is drawn
        n_numbers = 1 if isinstance(batches.sampler, NeighbourSampler) else 2
        rows = (4 + itemsize) * (self.n_entries - n_loops) + (8 + 2 * itemsize) * n_own
        order = 8 * (n_seeds + batches.n_batches + 1)
        n_trained = self.n_trained * batches.size / batches.n_seeds
        of_rows = features + (self.value_bytes if network.dropout else 0)
        row_bytes = of_rows / np.maximum(n_own, 1)
        drawn, made = batch_bytes(self.counts, network, batches.graph_of, row_bytes, n_trained)
        drawn += self.of_label * n_trained
        batch = drawn + made
        held = {
            "graph": found["graph"],
            "labels": found["labels"],
            "features": features,
            "weights": found["weights"],
            "sampled rows": rows + 8 * n_numbers * (n_own + n_halo) + 16 * n_seeds + order,
            "mini-batch": batch.astype(np.int64),
        }
        if network.n_validation:
            kept = drawn if batches.is_always_the_same else 0
            gone = batch + itemsize * network.n_weights  # the gradient, too
            beyond = np.maximum(kept + network.validation_bytes(self.sizes) - gone, 0)
            if beyond.any():
                held["validation, beyond it"] = beyond.astype(np.int64)
        return held

    def report(self) -> BatchPlanReport:
        """What an epoch costs, in the mean."""
        whole, batches = super().report(), self.batches
        rows = self.rows_of_graphs @ np.array(batches.times)
        n_validated = self.network.n_validating
        n_rounds = sum(batches.times)
        n_rounds += 0 if batches.is_always_the_same else batches.n_graphs  # indices
        return BatchPlanReport(
            **vars(whole),
            sampler=repr(batches.sampler),
            n_batches=batches.n_batches,
            rows_a_batch=float(rows.mean()),
            rows_deviation=float(rows.std()),
            rows_of_last=float(self.rows_of_last @ np.array(batches.times)),
            n_drawn=len(rows),
            n_vertices=self.n_vertices,
            validation_rows=n_validated * self.forward.total_rows,
            validation_messages=n_validated * self.forward.total_messages,
            messages_a_batch=n_rounds * self.forward.total_messages,
        )


def plan_batches(plan: GCNPlan, problem: GraphProblem, batches: Batches) -> BatchPlan:
    """A plan of full batches as one of mini-batches; draws some to see what they move."""
    assert plan.partition is not None
    sampler, graph = seeded(batches, problem), adjacency_of(problem)
    generator = np.random.default_rng(np.random.SeedSequence(batches.seed, spawn_key=(5,)))
    n_last = batches.n_seeds - (batches.n_batches - 1) * batches.size
    n_drawn = 1 if batches.is_always_the_same else _N_DRAWN
    drawn, last = (
        [sampler.draw(graph, generator, n_seeds) for _ in range(n_drawn)]
        for n_seeds in (batches.size, n_last)
    )
    n_begin = plan.n_own if isinstance(sampler, VertexSampler) else plan.n_trained
    seeds = n_begin * batches.size / batches.n_seeds
    counts = [BatchCounts.of(layers, plan.partition, seeds) for layers in drawn]
    rows_of_last = [
        [len(foreign_pairs(layer, plan.partition)) for layer in layers] for layers in last
    ]
    inherited = {each.name: getattr(plan, each.name) for each in fields(plan)}
    return BatchPlan(
        **inherited,
        batches=batches,
        rows_of_graphs=np.array([each.halo.sum(axis=1) for each in counts]),
        rows_of_last=np.mean(rows_of_last, axis=0),
        n_vertices=float(np.mean([len(layers[-1].vertices) for layers in drawn])),
        counts=BatchCounts.mean(counts),
        of_label=problem.bytes_of_label,
    )


@dataclass(eq=False, repr=False, kw_only=True)
class BatchPlanReport(GCNPlanReport):
    """What mini-batches cost on a partition, in the mean; the rest as of a product with all of Â.

    Attributes
    ----------
    sampler : str
    n_batches : int
        Of an epoch.
    rows_a_batch, rows_deviation : float
        Rows that a mini-batch moves, both ways together: mean over some that were drawn to see,
        and standard deviation.
    rows_of_last : float
        The same of the last of an epoch, which may be smaller.
    n_drawn : int
        How many were.
    n_vertices : float
        Of a mini-batch, with those that its layers read.
    validation_rows, validation_messages : int
        Of an epoch, on the whole graph.
    messages_a_batch : int
        Of indices (but for those of one that is drawn once) and of rows; some may be empty.
    """

    sampler: str
    n_batches: int
    rows_a_batch: float
    rows_deviation: float
    rows_of_last: float
    n_drawn: int
    n_vertices: float
    validation_rows: int
    messages_a_batch: int
    validation_messages: int = 0

    @property
    def volume(self) -> int:
        """Rows of an epoch, in the mean."""
        of_batches = (self.n_batches - 1) * self.rows_a_batch + self.rows_of_last
        return round(of_batches) + self.validation_rows

    def rows(self) -> dict[str, str]:
        """Name → value in plain words, in the order shown."""
        found = super().rows()
        kept = ("halo", "balance", "memory a rank", "partitioning took")
        with_validation = ", with those of validation" if self.validation_rows else ""
        validation = {
            "validation": f"{self.validation_rows:,} rows and {self.validation_messages:,} "
            "messages after each epoch, on the whole graph"
        }
        error = self.rows_deviation / np.sqrt(self.n_drawn)
        return {
            "mini-batches": f"{self.n_batches:,} an epoch by {self.sampler}, "
            f"{self.n_vertices:,.0f} vertices each, with those that are read",
            "rows a mini-batch": f"{self.rows_a_batch:,.1f} ± {error:,.1f} expected (mean of "
            f"{self.n_drawn} drawn to see)",
            "messages a mini-batch": f"{self.messages_a_batch:,}",
            **(validation if self.validation_rows else {}),
            "rows an epoch": f"{number_words(self.volume)} expected{with_validation}; a product "
            f"with all of Â moves {self.rows_of_product:,}",
            **{name: found[name] for name in kept if name in found},
        }
