"""The reordered matrix of Fig. 1 as a picture: 10⁶ nonzeros become a density image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor.checks import require_like, require_partition
from daskpart._floor.words import counted, plural
from daskpart.errors import InputError

from .bordered_form import BorderedForm, bordered_form, checked_entries
from .canvas import MOST_LABELS, RANK_COLOURS, axes_or_new, plain, rgb

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PIXELS = (600, 900)
_MOST_LINES = 64  # between parts; of more, lines would be all that is seen
_MOST_ENLARGED = 64  # rows, columns: axes of any size show them in three times as many pixels


def spy(
    data: Any,
    partition: Any = None,
    *,
    owners: ArrayLike | None = None,
    names: tuple[str, str] = ("row", "column"),
    ax: Axes | None = None,
) -> Axes:
    """The reordered matrix of Fig. 1: blocks of local columns, and the border of linking columns.

    Nonzeros have the colour of their rank and are counted into a density image, so 10⁶ of them
    draw in a fraction of a second. Cost: one sort of the nonzeros.

    Parameters
    ----------
    data : Shards, or any matrix that ``daskpart.partition`` takes
        With Shards the partition and the owners are its own.
    partition : Partition, optional
        Parts of the rows; needed unless ``data`` is Shards. A partition of the columns
        (as many vertices as columns, ``info["model"] == "row-net"``) draws the transpose.
    owners : int[N], optional
        Owner of each column; groups the border.
    names : (str, str), default=("row", "column")
        What a row and a column stand for, for the axis labels, such as ``("user", "item")``.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If the partition does not fit the matrix, or is missing.

    Examples
    --------
    >>> import daskpart, scipy.sparse
    >>> from daskpart import plots
    >>> X = scipy.sparse.random(60, 40, 0.1, "csr", random_state=0)
    >>> ax = plots.spy(X, daskpart.partition(X, 4))
    >>> ax.get_ylabel()
    '60 rows, by rank'
    """
    from daskpart.containers.matrix import as_matrix

    of_columns = None
    if hasattr(data, "partition") and hasattr(data, "connectivity"):
        of_columns = data.axis == "columns" if partition is None else None
        partition = data.partition if partition is None else partition
        owners = data.connectivity.owners if owners is None else owners
        data = data.to_coo()
    if partition is None:
        raise InputError("spy needs the partition of the rows: spy(matrix, partition)")
    require_partition(partition)
    matrix = as_matrix(data)
    rows, columns, shape = matrix.rows, matrix.columns, matrix.shape
    if of_columns is None:
        of_columns = partition.info.get("model") == "row-net"
    if of_columns:
        rows, columns, shape, names = columns, rows, shape[::-1], names[::-1]
    form = bordered_form(rows, columns, shape, partition.assignment, partition.n_parts, owners)
    return spy_form(rows, columns, shape, form, names=names, ax=ax)


def spy_form(
    rows: ArrayLike,
    columns: ArrayLike,
    shape: tuple[int, int],
    form: BorderedForm,
    *,
    names: tuple[str, str] = ("row", "column"),
    ax: Axes | None = None,
) -> Axes:
    """Draw nonzeros in a given bordered order; see `spy`, which makes the order first.

    Parameters
    ----------
    rows, columns : int array of shape (nnz,)
        Of the nonzeros, in any order.
    shape : (int, int)
        Of the matrix.
    form : BorderedForm
        From `bordered_form`.
    names : (str, str), default=("row", "column")
        Of a row and of a column.
    ax : matplotlib.axes.Axes, optional
        Drawn on; default: a new one.

    Raises
    ------
    InputError
        For no nonzeros, or one that is not in the matrix.

    Examples
    --------
    >>> from daskpart import plots
    >>> rows, columns = [0, 1, 1, 2], [0, 0, 1, 2]
    >>> form = plots.bordered_form(rows, columns, (3, 3), [0, 0, 1], 2)
    >>> ax = plots.spy_form(rows, columns, (3, 3), form)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('columns: 3 local to one rank | 0 linking several', '3 rows, by rank')
    """
    require_like(form, "form", ("row_order", "column_order"), "what bordered_form gives")
    row_of, column_of, shape = checked_entries(rows, columns, shape)
    if not len(row_of):
        raise InputError(
            f"the {shape[0]} x {shape[1]} matrix has no nonzero to draw: give at least one"
        )
    if not isinstance(names, tuple | list) or len(names) != 2:
        raise InputError(f"names is {names!r}: give two, of a row and of a column")
    ax = axes_or_new(ax, (6.4, 4.4))
    n_rows, n_columns = shape[0], len(form.column_order)
    image = _in_short_cells(_density_image(row_of, column_of, shape, form))
    ax.imshow(image, extent=(0, n_columns, n_rows, 0), aspect="auto", interpolation="antialiased")
    _draw_boundaries(ax, form)
    _label(ax, form, n_rows, n_columns, names)
    return ax


def _density_image(
    rows: NDArray[Any], columns: NDArray[Any], shape: tuple[int, int], form: BorderedForm
) -> NDArray[np.float64]:
    """Nonzeros counted into pixels: the hue is the rank's, the depth grows with the logarithm."""
    row_place = np.empty(shape[0], dtype=np.int64)
    row_place[form.row_order] = np.arange(shape[0])
    column_place = np.zeros(shape[1], dtype=np.int64)
    column_place[form.column_order] = np.arange(len(form.column_order))
    height = min(shape[0], _PIXELS[0])
    width = min(len(form.column_order), _PIXELS[1])
    vertical = row_place[rows] * height // shape[0]
    horizontal = column_place[columns] * width // len(form.column_order)
    pixels = vertical * width + horizontal
    counts = np.bincount(pixels, minlength=height * width).reshape(height, width)
    depth = np.log1p(counts) / np.log1p(counts.max(initial=1))
    depth = np.where(counts > 0, 0.4 + 0.6 * depth, 0.0)[:, :, None]
    middle_row = (2 * np.arange(height) + 1) * shape[0] // (2 * height)
    middle_column = (2 * np.arange(width) + 1) * len(form.column_order) // (2 * width)
    row_part = (np.searchsorted(form.row_pointer, middle_row, side="right") - 1)[:, None]
    block = (np.searchsorted(form.local_pointer, middle_column, side="right") - 1)[None, :]
    palette = np.array([rgb(colour) for colour in RANK_COLOURS])
    ink = palette[row_part % len(RANK_COLOURS)]
    paper = np.ones((height, width, 3))
    paper[:, block[0] == form.n_parts] = 0.955
    on_diagonal = (row_part == block)[:, :, None]
    paper = np.where(on_diagonal, 0.86 + 0.14 * ink, paper)
    return paper * (1 - depth) + ink * depth


def _in_short_cells(image: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same, in which no cell is much longer than it is wide, if there are many.

    matplotlib smooths an image along both sides where it enlarges one of them less than threefold:
    the few columns beside many rows would run into each other.
    """
    if max(image.shape[:2]) <= _MOST_ENLARGED:
        return image
    height, width = (max(1, most // n) for most, n in zip(_PIXELS, image.shape, strict=False))
    return image.repeat(height, axis=0).repeat(width, axis=1)


def _draw_boundaries(ax: Axes, form: BorderedForm) -> None:
    """Lines between the parts, round the diagonal blocks, before the border and inside it."""
    ax.axvline(form.local_pointer[-1], color="black", linewidth=1.0)
    if form.n_parts > _MOST_LINES:
        return
    for part in range(1, form.n_parts):
        ax.axhline(form.row_pointer[part], color="#999999", linewidth=0.5)
        if form.border_pointer is not None:
            ax.axvline(form.border_pointer[part], color="#999999", linewidth=0.5)
    for part in range(form.n_parts):
        left, right = form.local_pointer[part : part + 2]
        top, bottom = form.row_pointer[part : part + 2]
        corners = ([left, right, right, left, left], [top, top, bottom, bottom, top])
        ax.plot(*corners, color=RANK_COLOURS[part % len(RANK_COLOURS)], linewidth=0.8)


def _label(
    ax: Axes, form: BorderedForm, n_rows: int, n_columns: int, names: tuple[str, str]
) -> None:
    """Names of the parts at the left, and what is local and what links below."""
    ax.set_xlim(0, n_columns)
    ax.set_ylim(n_rows, 0)
    if form.n_parts <= MOST_LABELS:
        middle = (form.row_pointer[:-1] + form.row_pointer[1:]) / 2
        named = _apart(middle, np.diff(form.row_pointer), 0.75 * n_rows / MOST_LABELS)
        ax.set_yticks(middle[named], [f"rank {part}" for part in named])
        ax.tick_params(axis="y", length=0)
    else:
        ax.set_yticks([])
    ax.set_ylabel(plain(f"{counted(n_rows, str(names[0]))}, by rank"))
    if form.n_linking and form.border_pointer is not None and form.n_parts <= MOST_LABELS:
        for part in range(form.n_parts):
            left, right = form.border_pointer[part : part + 2]
            if right - left > 0.03 * n_columns:
                ax.annotate(
                    f"{part}",
                    ((left + right) / 2, 0),
                    (0, 3),
                    textcoords="offset points",
                    ha="center",
                    fontsize=8,
                    color="#444444",
                )
        ax.set_title(plain(f"owner of the linking {names[1]}"), loc="right", fontsize=8, pad=14)
    border = int(form.local_pointer[-1])
    is_clear = 0.08 * n_columns < border < 0.85 * n_columns  # of the labels at both ends
    ax.set_xticks([0, border, n_columns] if is_clear else [0, n_columns])
    ax.xaxis.set_major_formatter(lambda value, _: f"{int(value):,}")
    columns = plural(str(names[1]))
    linking = f"{form.n_linking:,} linking several"
    ax.set_xlabel(plain(f"{columns}: {border:,} local to one rank | {linking}"))


def _apart(places: NDArray[np.float64], sizes: NDArray[np.int64], distance: float) -> list[int]:
    """The parts that hold something, but for those so close that their names would overlap."""
    named: list[int] = []
    for part in np.flatnonzero(sizes).tolist():
        if not named or places[part] - places[named[-1]] >= distance:
            named.append(part)
    return named
