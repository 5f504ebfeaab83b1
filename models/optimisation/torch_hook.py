"""TopK by layer for networks of torch: a communication hook of DistributedDataParallel.

    layer 1   ‥3‥-7‥1‥‥2‥    k of each bucket ─┐
    layer 2   ‥‥5‥‥‥‥1‥      k of each bucket ─┴─ allgather of (index, value) ─▶ mean on every rank
    the rest stays behind, and is added to the next gradient of its layer

Renggli 2017, §4.3 and §5.4: networks take k of every 512 entries of a layer. The backward pass of
torch hands over layers while it still computes those before, so what is sent travels meanwhile. The
same choice for numpy is `daskpart.collectives.TopK`. Needs the extra ``daskpart[torch]``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from daskpart._floor.checks import whole_number
from daskpart.errors import InputError


@dataclass(eq=False)
class TopKState:
    """What `topk_hook` keeps between steps; one a rank.

    Parameters
    ----------
    k : int
        Entries sent of each bucket of a layer; all where a bucket has no more.
    bucket : int, default=512
        Length of a bucket.
    process_group : torch.distributed.ProcessGroup, optional
        Default: all ranks.

    Attributes
    ----------
    residuals : dict of int to torch.Tensor
        Of each layer, in the order in which torch handed them over first: what was not sent yet. A
        checkpoint of the training should hold it: give it to the state of the network that goes on.
    sent : int
        Entries that this rank has sent so far.

    Raises
    ------
    InputError
        If k or bucket is not positive.

    Examples
    --------
    >>> network = DistributedDataParallel(network)                     # doctest: +SKIP
    >>> network.register_comm_hook(TopKState(k=2), topk_hook)          # doctest: +SKIP
    """

    k: int
    bucket: int = 512
    process_group: Any = None
    residuals: dict[int, Any] = field(default_factory=dict, repr=False)
    sent: int = 0
    # by the parameters themselves, which stay alive here: one that is new has no number of another
    _places: dict[Any, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self.k = whole_number(self.k, "k", 1)
        self.bucket = whole_number(self.bucket, "bucket", 1)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_places": {}}  # a copy is for other parameters, in the same order

    def select(self, place: int, gradient: Any) -> tuple[Any, Any]:
        """Indices and values of what a layer sends; the rest becomes its residual.

        Parameters
        ----------
        place : int
            Of the layer.
        gradient : torch.Tensor
            Not changed.

        Raises
        ------
        InputError
            If the residual is that of a layer of another size.
        """
        import torch

        total = gradient.flatten().clone()
        kept = self.residuals.get(place)
        if kept is not None:
            if kept.shape != total.shape:
                raise InputError(
                    f"residuals[{place}] has {kept.numel()} entries, the layer {total.numel()}: "
                    "they are of another network"
                )
            total += kept.to(total)
        n, length = total.numel(), min(self.bucket, total.numel())
        rows = -(-n // length)
        # below every entry, zeros too: all ranks have to send as many
        padding = total.new_full((rows * length - n,), -1.0)
        magnitudes = torch.cat([total.abs(), padding]).view(rows, length)
        chosen = magnitudes.topk(min(self.k, length), dim=1).indices
        first = torch.arange(rows, device=total.device)[:, None] * length
        indices = (first + chosen).flatten()
        indices = indices[indices < n]
        values = total[indices]
        total[indices] = 0
        self.residuals[place] = total
        self.sent += indices.numel()
        return indices, values

    def place_of(self, parameter: Any) -> int:
        """A number for each parameter, the same in every step."""
        return self._places.setdefault(parameter, len(self._places))


def topk_hook(state: TopKState, bucket: Any) -> Any:
    """Mean over ranks of the entries that each sends of every layer.

    Parameters
    ----------
    state : TopKState
    bucket : torch.distributed.GradBucket
        The layers that torch has ready.

    Returns
    -------
    torch.futures.Future of torch.Tensor
        Like ``bucket.buffer()``.
    """
    import torch
    import torch.distributed as dist

    buffer = bucket.buffer()
    if not bool(torch.isfinite(buffer).all()):
        raise InputError("a gradient is not finite: lower the learning rate, or clip it")
    offset, indices, values = 0, [], []
    for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
        own, kept = state.select(state.place_of(parameter), gradient)
        indices.append(own + offset)
        values.append(kept)
        offset += gradient.numel()
    group = dist.group.WORLD if state.process_group is None else state.process_group
    n_ranks = dist.get_world_size(group)
    sent_indices, sent_values = torch.cat(indices), torch.cat(values)
    all_indices = [torch.empty_like(sent_indices) for _ in range(n_ranks)]
    all_values = [torch.empty_like(sent_values) for _ in range(n_ranks)]
    works = [
        dist.all_gather(all_indices, sent_indices, group=group, async_op=True),
        dist.all_gather(all_values, sent_values, group=group, async_op=True),
    ]

    def summed(_: Any) -> Any:
        total = torch.zeros_like(buffer)
        for places, entries in zip(all_indices, all_values, strict=True):  # in order of rank
            total.index_add_(0, places, entries)
        return total / n_ranks

    return torch.futures.collect_all([work.get_future() for work in works]).then(summed)


topk_hook.__annotations__.clear()  # torch refuses annotations that are text, as they are here
