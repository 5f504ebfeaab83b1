"""What a transport implements: the bottom of a `Communicator`, with everything checked above it.

Communicator   values   map   update   post   collect   fold   gather   …    checks, spends
                 │       │      │       │        │        │      │
Transport     _values  _map  _update  _post   _collect  _fold  _gather  …    runs
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .exchange import Exchange, PendingValues
from .per_rank import Pending, PerRank, Replicated

if TYPE_CHECKING:
    from .prepared import PreparedRound
    from .swapping import SwapSteps


class Transport(ABC):
    """Runs steps and carries messages; arguments are those of `Communicator`, already checked."""

    @abstractmethod
    def _values(self, values: Any) -> PerRank: ...

    @abstractmethod
    def _replicated(self, value: Any) -> Replicated: ...

    @abstractmethod
    def _map(self, function: Callable, values: Sequence[Any], static: dict) -> PerRank: ...

    @abstractmethod
    def _update(
        self, function: Callable, state: PerRank, values: Sequence[Any], static: dict
    ) -> PerRank: ...

    @abstractmethod
    def _post(self, prepared_round: PreparedRound, values: PerRank, pack: Callable) -> Any: ...

    @abstractmethod
    def _collect(
        self, pending: Pending, state: PerRank, combine: Callable, values: Sequence, static: dict
    ) -> PerRank: ...

    @abstractmethod
    def _post_values(
        self, exchange: Exchange, values: PerRank, pack: Callable, label: str, index: int
    ) -> Any: ...

    @abstractmethod
    def _collect_values(
        self,
        pending: PendingValues,
        state: PerRank,
        combine: Callable,
        values: Sequence,
        static: dict,
    ) -> PerRank: ...

    def _swap(
        self,
        exchanges: Sequence[Exchange],
        values: PerRank,
        steps: SwapSteps,
        label: str,
        static: dict,
    ) -> PerRank:
        """Round by round; a transport whose calls have a price may do better."""
        state = self._map(steps.begin, (values,), {})
        for index, exchange in enumerate(exchanges):
            content = self._post_values(exchange, state, steps.pack, label, index)
            pending = PendingValues(self, exchange, content)  # type: ignore[arg-type]
            state = self._collect_values(pending, state, steps.combine, (), static)
        return self._map(steps.end, (state, values), {})

    @abstractmethod
    def _fold(
        self, values: PerRank, function: Callable, label: str, static: dict
    ) -> Replicated: ...

    @abstractmethod
    def _agreed(self, values: PerRank) -> Replicated: ...

    @abstractmethod
    def _gather(self, values: PerRank) -> list[Any] | None: ...

    @abstractmethod
    def _settle(self, values: Sequence[PerRank | Replicated]) -> None: ...

    @abstractmethod
    def _result(self, content: Any) -> Any: ...

    @abstractmethod
    def _close(self) -> None: ...
