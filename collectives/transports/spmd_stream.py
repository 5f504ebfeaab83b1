"""Messages from one worker to another, over a connection of their own.

    session ──put──▶ [message, message, …] ──write──▶ the other worker's `RankHost`

What is put while one write lasts goes together with the next.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from distributed.comm import connect

if TYPE_CHECKING:
    from .spmd_host import Session

MESSAGES, STREAM_END = "daskpart_rank_messages", "end"


class Stream:
    """Messages to another worker, in order, with no answers."""

    def __init__(self, session: Session, address: str) -> None:
        self._session, self._address = session, address
        self._waiting: list[Any] = []
        self._filled = asyncio.Event()
        self._writer = asyncio.create_task(self._write())

    def put(self, message: Any) -> None:
        """Send when the messages before have been sent."""
        self._waiting.append(message)
        self._filled.set()

    async def close(self) -> None:
        """Say that this is the end, and wait a moment until it is said."""
        self.put(STREAM_END)
        await asyncio.wait([self._writer], timeout=2.0)
        self._writer.cancel()

    async def _write(self) -> None:
        session, worker = self._session, self._session.host.worker
        try:
            comm = await connect(self._address, **worker.connection_args)
            try:
                run = session.spec.run_id
                opening = {"op": MESSAGES, "reply": False, "run": run, "sender": session.address}
                await comm.write(opening)
                last = None
                while last != STREAM_END:
                    await self._filled.wait()
                    self._filled.clear()
                    messages, self._waiting = self._waiting, []
                    last = messages[-1] if isinstance(messages[-1], str) else None
                    await comm.write(messages)
            finally:
                await comm.close()
        except OSError as error:
            session.end(
                f"no connection to worker {self._address} with "
                f"{session.ranks_of(self._address)}: {error}"
            )
