"""Made-up ratings of any size, with a known best answer.

    popularity of the i-th item ~ (i + 1)^-exponent          rating = mean + biases + u . v + noise
      |#
      |##
      |####
      |############____                                      best RMSE = noise

Users and items are drawn by Zipf's law through its continuous inverse, floor(n u^(1/(1-exponent))),
one power a draw; numbers are then shuffled, so that popular ones are not neighbours.
"""

from __future__ import annotations

import numpy as np
import xarray

from daskpart._floor.checks import finite_number, random_generator, whole_number
from daskpart._floor.kernels import kernel
from daskpart.errors import InputError
from daskpart.readers.assembly import labelled

_ROUNDS_BY_POPULARITY = 4
_MEAN = 3.5


def power_law_ratings(
    n_users: int,
    n_items: int,
    n_ratings: int,
    random_state: int | np.random.Generator = 0,
    *,
    rank: int = 8,
    noise: float = 0.5,
    user_exponent: float = 0.5,
    item_exponent: float = 0.8,
) -> xarray.DataArray:
    """Draw ratings of low rank plus noise at cells of Zipf-like popularity.

    Parameters
    ----------
    n_users, n_items : int
    n_ratings : int
        Distinct cells; at most half of all.
    random_state : int or numpy.random.Generator, default=0
    rank : int, default=8
        Of the part that can be learnt besides the biases.
    noise : float, default=0.5
        Standard deviation of what cannot be learnt: the best RMSE there is.
    user_exponent, item_exponent : float, default=0.5 and 0.8
        Of Zipf's law, from 0 (all alike) to below 1.

    Returns
    -------
    xarray.DataArray
        ``rating``, dims user and item, float32 over sparse.COO, ids 0, 1, ... as coordinates, in
        the type that `daskpart.read` gives. Mean about 3.5; biases of standard deviation 0.3; u . v
        of standard deviation 0.6. Some users or items may have no rating.

    Raises
    ------
    InputError
        A number out of range; more ratings than half the cells.

    Notes
    -----
    Time: a sort of n_ratings keys and 2 rank multiply-adds a rating; 10^7 ratings in seconds.
    """
    for name, exponent in (("user_exponent", user_exponent), ("item_exponent", item_exponent)):
        if finite_number(exponent, name) >= 1:
            raise InputError(f"{name}={exponent}; it must be at least 0 and below 1")
    n_users, n_items = whole_number(n_users, "n_users", 1), whole_number(n_items, "n_items", 1)
    n_ratings = whole_number(n_ratings, "n_ratings", 1)
    rank, noise = whole_number(rank, "rank", 1), finite_number(noise, "noise")
    if n_ratings > n_users * n_items // 2:
        raise InputError(
            f"n_ratings={n_ratings} of {n_users} x {n_items} cells; it must be from 1 to "
            f"{n_users * n_items // 2}, half of them"
        )
    generator = random_generator(random_state)
    users, items = _cells(generator, n_users, n_items, n_ratings, user_exponent, item_exponent)
    ratings = generator.standard_normal(n_ratings, np.float32)
    ratings *= noise
    scale = np.float32(np.sqrt(0.6 / np.sqrt(rank)))
    _add_signal(
        users,
        items,
        ratings,
        generator.standard_normal((n_users, rank), np.float32) * scale,
        generator.standard_normal((n_items, rank), np.float32) * scale,
        generator.standard_normal(n_users, np.float32) * np.float32(0.3) + np.float32(_MEAN),
        generator.standard_normal(n_items, np.float32) * np.float32(0.3),
    )
    ids = (np.arange(n_users), np.arange(n_items))
    return labelled(users, items, ratings, ids, ("user", "item"), "rating", "power_law_ratings")


def _cells(
    generator: np.random.Generator,
    n_users: int,
    n_items: int,
    n_ratings: int,
    user_exponent: float,
    item_exponent: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Distinct cells in row-major order, int32.

    A few rounds by popularity; when the popular cells are full, the rest is drawn evenly.
    """
    user_order, item_order = generator.permutation(n_users), generator.permutation(n_items)
    keys = np.empty(0, np.int64)
    rounds = 0
    while len(keys) < n_ratings:
        even = rounds >= _ROUNDS_BY_POPULARITY
        n_draws = (n_ratings - len(keys)) * 5 // 4 + 16
        user = user_order[_zipf(generator, n_users, n_draws, 0.0 if even else user_exponent)]
        item = item_order[_zipf(generator, n_items, n_draws, 0.0 if even else item_exponent)]
        drawn = user * n_items
        drawn += item
        keys = _distinct(np.concatenate([keys, drawn]))
        rounds += 1
    surplus = len(keys) - n_ratings
    if surplus:
        keys = np.delete(keys, generator.choice(len(keys), surplus, replace=False, shuffle=False))
    users = keys // n_items
    return users.astype(np.int32), (keys - users * n_items).astype(np.int32)


def _zipf(generator: np.random.Generator, n: int, size: int, exponent: float) -> np.ndarray:
    drawn = generator.random(size)
    if exponent:
        drawn **= 1 / (1 - exponent)
    drawn *= n
    return drawn.astype(np.int64)


def _distinct(keys: np.ndarray) -> np.ndarray:
    keys.sort()
    return keys[np.append(True, keys[1:] != keys[:-1])]


@kernel(fastmath=True)
def _add_signal(users, items, ratings, user_factors, item_factors, user_bias, item_bias):
    """Add biases and the product of factors to each rating, in place."""
    for place in range(len(ratings)):
        user, item = users[place], items[place]
        signal = user_bias[user] + item_bias[item]
        for component in range(user_factors.shape[1]):
            signal += user_factors[user, component] * item_factors[item, component]
        ratings[place] += signal
