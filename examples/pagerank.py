"""PageRank as an algorithm text of one's own: the same on every transport.

    python pagerank.py --transport local --ranks 4          (see transports.py)

The pages are modules of the Python standard library, and a page links to those whose names it
uses. The graph is cut so that few pages are linked from several ranks; each rank then holds the
incoming links of its own pages, and needs the score of every page that links to one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from transports import options, run

import daskpart
from daskpart import Connectivity
from daskpart.collectives import (
    MAX,
    Communicator,
    PerRank,
    Plan,
    PreparedPlan,
    allreduce,
    expand,
    expand_plan,
)


@dataclass(frozen=True)
class Part:
    """What one rank holds: its own pages come first among all that it has a score of."""

    pages: np.ndarray  # own pages, then those that link to one of them
    n_own: int
    links: scipy.sparse.csr_array  # own pages × pages, each link 1 / links of the page it is on
    loose: np.ndarray  # which of the own pages have no links at all


# -- the text ---


def pagerank(
    comm: Communicator, part: PerRank, halo: PreparedPlan, *, n_pages: int, tolerance: float = 1e-9
) -> tuple[PerRank, int]:
    """The scores of each rank's own pages, of all pages 1 in sum; and how many iterations it took.

    The halo is a plan by which the scores of other ranks' pages come.
    """
    scores = comm.map(even_scores, part, n_pages=n_pages)
    change, n_iterations = 1.0, 0
    while change > tolerance:
        loose = allreduce(comm, comm.map(loose_score, part, scores))
        scores = expand(comm, halo, scores)
        moved = comm.map(follow_links, part, scores, loose, n_pages=n_pages)
        change = allreduce(comm, comm.map(largest_change, part, scores, moved), MAX).result()
        scores, n_iterations = moved, n_iterations + 1
    return comm.map(own_scores, part, scores), n_iterations


def even_scores(part: Part, *, n_pages: int) -> np.ndarray:
    return np.full(len(part.pages), 1.0 / n_pages)


def loose_score(part: Part, scores: np.ndarray) -> float:
    return float(scores[: part.n_own][part.loose].sum())


def follow_links(part: Part, scores: np.ndarray, loose: float, *, n_pages: int) -> np.ndarray:
    moved = scores.copy()
    moved[: part.n_own] = (0.15 + 0.85 * loose) / n_pages + 0.85 * (part.links @ scores)
    return moved


def largest_change(part: Part, scores: np.ndarray, moved: np.ndarray) -> float:
    return float(np.abs(moved - scores)[: part.n_own].max(initial=0.0))


def own_scores(part: Part, scores: np.ndarray) -> np.ndarray:
    return scores[: part.n_own].copy()


# -- before it: the graph, the cut, the plan ---


def module_graph() -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """Link matrix (on row p the pages that link to p), and the names of the pages."""
    counts = daskpart.datasets.load_python_source()["counts"]
    rows, columns = counts.data.coords
    users, words = counts["package"].values[rows], counts["identifier"].values[columns]
    names = np.unique(counts["package"].values)
    known = np.isin(words, names) & (users != words)
    source, target = np.searchsorted(names, users[known]), np.searchsorted(names, words[known])
    pairs = np.unique(np.stack((target, source)), axis=1)
    shape = (len(names), len(names))
    return scipy.sparse.csr_array((np.ones(pairs.shape[1]), pairs), shape=shape), names


def cut(links: scipy.sparse.csr_array, n_ranks: int) -> tuple[Plan, list[Part]]:
    """Pages assigned to ranks, and the plan that carries scores to where they are needed."""
    n_pages = links.shape[0]
    owner = daskpart.partition(links, n_ranks, epsilon=0.1, random_state=0).assignment
    linked, linking = links.nonzero()
    needed = Connectivity.from_pairs(linking, owner[linked], n_pages, n_ranks)
    out_links = np.bincount(linking, minlength=n_pages)
    weighted = links @ scipy.sparse.diags_array(1.0 / np.maximum(out_links, 1))
    parts = []
    for rank in range(n_ranks):
        own = np.flatnonzero(owner == rank)
        others = np.setdiff1d(linking[owner[linked] == rank], own)
        pages = np.concatenate((own, others))
        local = scipy.sparse.csr_array(weighted[own][:, pages])
        parts.append(Part(pages, len(own), local, out_links[own] == 0))
    return expand_plan(needed, owners=np.where(needed.connectivity > 0, owner, -1)), parts


# -- around it: what is handed out before, and gathered after ---


def scores_of_pages(comm: Communicator, plan: Plan, parts: list[Part]) -> tuple[np.ndarray, int]:
    """Scores of all pages in their order, and the number of iterations."""
    pages = [held.pages[: held.n_own] for held in parts]
    found = np.empty(sum(map(len, pages)))
    halo = comm.prepare(plan, comm.values([held.pages for held in parts]))
    own, n_iterations = comm.run(pagerank, comm.values(parts), halo, n_pages=len(found))
    found[np.concatenate(pages)] = np.concatenate(comm.gather(own))
    return found, n_iterations


def main(comm: Communicator) -> None:
    links, names = module_graph()
    plan, parts = cut(links, comm.n_ranks)
    scores, n_iterations = scores_of_pages(comm, plan, parts)
    best = np.argsort(-scores, kind="stable")[:8]
    print(f"{len(names)} modules, {links.nnz} links, sum of scores {scores.sum():.9f}")
    print(f"{n_iterations} iterations, {plan.total_rows} scores travel in each")
    for page in best:
        print(f"  {names[page]:<12} {scores[page]:.15f}")
    print(comm.counters)


if __name__ == "__main__":
    chosen = options("PageRank of the modules of the standard library.")
    run(main, chosen.transport, chosen.ranks)
