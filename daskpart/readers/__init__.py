"""Files to sparse data: `read`; and `survey`, of a file that no process reads whole.

    path --name, first lines--> format --scan, check--> indices, values --assemble--> sparse

One rule for what comes back: where the file's indices are names (user ids, node ids) the result
carries them as labels (xarray over sparse.COO); where they are positions it is a plain sparse
array.
"""

from __future__ import annotations

import inspect
import os
from importlib import import_module
from typing import Any

from daskpart._floor.checks import one_of
from daskpart.errors import InputError

from .detection import FORMATS, detect
from .libsvm import Examples
from .ranges import ExamplesFile, survey
from .streams import location

__all__ = ["Examples", "ExamplesFile", "read", "survey"]


_READERS = {
    "ratings": ("ratings", "read_ratings"),
    "parquet": ("frames", "read_parquet"),
    "adjacency": ("graphs", "read_adjacency"),
    "edges": ("graphs", "read_edges"),
    "mtx": ("matrix_market", "read_mtx"),
    "npz": ("archives", "read_npz"),
    "tns": ("tensors", "read_tns"),
    "libsvm": ("libsvm", "read_libsvm"),
    "hgr": ("hypergraphs", "read_hgr"),
    "patoh": ("hypergraphs", "read_patoh"),
    "metis": ("metis_graphs", "read_metis"),
}


def read(path: str | os.PathLike[str], format: str | None = None, **options: Any) -> Any:
    """Read sparse data from a file, also compressed (.gz, .xz, .bz2).

    Parameters
    ----------
    path : str or path-like
        Or an address that fsspec knows: ``"s3://bucket/ratings.csv.gz"``, ``"https://..."``.
    format : str, optional
        One of the table below. By default told from the name, then from the first lines.
    **options
        Of the format: ratings and edges take columns, header, text_ids, dtype, repeats; parquet
        columns, dtype, repeats; adjacency dtype, repeats; tns shape, zero_based, dtype; libsvm
        n_features, zero_based, dtype. ``dtype`` is the type of the values, ``columns`` the names or
        positions of user, item and rating, or of source, target, weight, ``repeats="sum"`` adds up
        what a cell has more than once (events; of edges the default), ``shape`` and ``n_features``
        are extents beyond what occurs, ``zero_based`` says whether indices begin at 0.

    Returns
    -------
    DataArray, csr_array, sparse.COO, Dataset, Examples or Hypergraph
        By format:

        =========== ======================================= ==================================
        format      lines or content                        result
        =========== ======================================= ==================================
        ratings     ``u.data`` (tabs), ``ratings.dat``      DataArray ``rating``, dims user,
                    (``::``), ``ratings.csv`` (header);     item, float32 over sparse.COO,
                    timestamps are left out                 ids as coordinates
        parquet     frame with user, item, rating           as ratings; where columns are source
                                                            and target, as edges
        adjacency   ``user item item ...``                  as ratings, all 1
        edges       ``source target [weight]``, by number   DataArray ``weight``, dims source,
                    or name, also under a header            target, square, float32
        mtx         Matrix Market, coordinate               scipy.sparse.csr_array
        npz         ``scipy.sparse.save_npz``               scipy.sparse.csr_array
        npz         ``sparse.save_npz``                     sparse.COO
        npz         graph: ``adj_indptr``, ...              Dataset: adjacency, features,
                                                            label, masks
        tns         FROSTT tensor, any order, 1-based       sparse.COO, float64
        libsvm      ``label index:value ...``               Examples: data (csr_array,
                                                            float64), target
        hgr         hMETIS hypergraph (.hgr)                Hypergraph
        patoh       PaToH hypergraph (.u)                   Hypergraph
        metis       METIS graph (.graph)                    Hypergraph, a net an edge
        =========== ======================================= ==================================

        Explicit zeros stay entries. Indices are int32 where they fit. Labels are sorted. Blanks
        around an id in text are not of it.

    Raises
    ------
    ReadError
        The file is missing, empty, cut short or of unknown format; or a line holds what it may
        not (NaN, infinity, a negative id, too few columns): the message names path and line.
    InputError
        An unknown format or option, or a package that is not installed.

    Warns
    -----
    DaskpartWarning
        A cell occurs more than once (the last value is kept; of edges and tensors, values are
        summed); a .tns mode is 0-based; the first line of edges may be a header.

    Notes
    -----
    Text is read in chunks of 4 MiB; memory is about 20 bytes a rating besides, and never out of
    proportion to the file: rows, columns or vertices that it only announces are refused beyond
    2^21 + 16 an entry. Formats: MovieLens [1]_, FROSTT [2]_, Matrix Market [3]_, libsvm [4]_.

    References
    ----------
    .. [1] F. M. Harper, J. A. Konstan, "The MovieLens datasets", ACM TiiS 5(4), 2015.
    .. [2] S. Smith et al., "FROSTT: the formidable repository of open sparse tensors and tools",
       2017.
    .. [3] R. F. Boisvert, R. Pozo, K. A. Remington, "The Matrix Market exchange formats", NIST,
       1996.
    .. [4] C.-C. Chang, C.-J. Lin, "LIBSVM: a library for support vector machines", 2011.

    Examples
    --------
    >>> ratings = daskpart.read("ml-1m/ratings.dat")          # doctest: +SKIP
    >>> ratings.sizes                                         # doctest: +SKIP
    Frozen({'user': 6040, 'item': 3706})
    """
    place = location(path)
    if format is None:
        chosen = detect(place, columns_named=options.get("columns") is not None)
    else:
        chosen = one_of(format, "format", sorted(FORMATS))
    module, function = _READERS[chosen]
    reader = getattr(import_module(f".{module}", __name__), function)
    allowed = [name for name in inspect.signature(reader).parameters if name != "path"]
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise InputError(
            f"{place}: the format {chosen!r} has no options {unknown}; it takes {allowed}"
        )
    return reader(place, **options)
