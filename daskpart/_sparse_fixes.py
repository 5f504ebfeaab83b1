"""Registrations that make pydata/sparse and SciPy's sparse arrays safe on a cluster.

The trap: a full reduction of a sparse Dask array holds its value in `fill_value`, which
`distributed` does not send. With worker processes ``x.sum()`` was silently 0.

    task result ──▶ COO(nnz=0, fill_value=401.87) ──wire──▶ COO(nnz=0, fill_value=0)     stock
                                                  ──pickle─▶ the same COO                here

Four cures, applied by `import daskpart`:

1. `sparse.COO` goes over the wire with pickle, which keeps the fill value and the sorted order.
2. `dask.sizeof` counts the bytes of `sparse` arrays and of SciPy's sparse arrays (`csr_array`, …),
   which it otherwise takes for some 50 bytes, so memory limits and transfer costs are seen.
3. The kernels of `sparse` have their machine code in our cache on disk: the first slice of an array
   took a process 4 s (COO) or 11 s (GCXS) of compiling, on each worker anew.
4. Workers get 1 to 3 as well, through a worker plugin that imports this module there.

What is covered: this process; every worker, present and future, of the current client; and of each
client that this process starts later (`distributed.client.preload`). Where `distributed` is loaded
only after daskpart, cure 1 waits for the first client. Not covered: further clients that were
started before the import, and an asynchronous one whose event loop has not run since: for these
call `protect(client)`. Workers that cannot import daskpart are left as they were, with a warning.

`distributed` and `sparse` are not imported here unless they are loaded already or come to be used.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import dask.config
import dask.sizeof

from .errors import warn

_PLUGIN_NAME = "daskpart-sparse-fixes"
_PATIENCE = 10.0  # seconds that an import waits for a cluster at most
_OBJECT_BYTES = 128  # what an array costs beside its buffers, about


def apply() -> None:
    """Apply all cures here and on the workers of the current client; may be repeated."""
    _count_bytes()
    _ask_new_clients()
    if "distributed.protocol.serialize" in sys.modules:
        _send_whole()
        _protect_current_client()


def protect(client: Any) -> Any:
    """Apply the cures on every worker of a client's cluster, present and future.

    For an asynchronous client, await what this gives back. Cost: one round trip to the scheduler
    where the cluster is protected already.

    Warns
    -----
    DaskpartWarning
        A worker cannot import daskpart; the cluster is left as it was.
    """
    _send_whole()
    return client.sync(_protect, client)


async def dask_setup(server: Any) -> None:
    """Run by `distributed` when a Client (or, as a ``--preload``, a Worker) has started."""
    _send_whole()
    if hasattr(server, "register_plugin"):
        await _protect(server)


def _count_bytes() -> None:
    """Register sizes: at once where a library is loaded, else when its first object is met."""
    for library, module, register in (
        ("sparse", "sparse", _count_pydata),
        ("scipy", "scipy.sparse", _count_scipy),
    ):
        if module in sys.modules:
            register()
        else:
            dask.sizeof.sizeof.register_lazy(library, register)


def _count_pydata() -> None:
    import sparse

    # each class by name: dask may have cached its wrong answer for it
    for kind in (sparse.SparseArray, sparse.COO, sparse.GCXS, sparse.DOK):
        dask.sizeof.sizeof.register(kind, _pydata_bytes)


def _pydata_bytes(array: Any) -> int:
    return int(array.nbytes) + _OBJECT_BYTES


def _count_scipy() -> None:
    import scipy.sparse

    dask.sizeof.register_spmatrix()  # ours may stand in the place of dask's own
    for form in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil"):
        dask.sizeof.sizeof.register(getattr(scipy.sparse, f"{form}_array"), _scipy_bytes)


def _scipy_bytes(array: Any) -> int:
    return _OBJECT_BYTES + sum(dask.sizeof.sizeof(value) for value in vars(array).values())


def _ask_new_clients() -> None:
    preload = dask.config.get("distributed.client.preload", []) or []
    preload = [preload] if isinstance(preload, str) else list(preload)
    if __name__ in preload:
        return
    changes: dict[str, Any] = {"distributed.client.preload": [*preload, __name__]}
    arguments = dask.config.get("distributed.client.preload-argv", []) or []
    if arguments and not isinstance(arguments[0], str):  # one list a module: lengths must agree
        changes["distributed.client.preload-argv"] = [*arguments, []]
    dask.config.set(changes)
    logging.getLogger("distributed.preloading").addFilter(_is_not_of_ours)


def _is_not_of_ours(record: logging.LogRecord) -> bool:
    """Let the log tell of every preload but this one, which nobody asked for."""
    return __name__ not in record.getMessage()


def _send_whole() -> None:
    """Send by pickle: at once where `sparse` is loaded, else when its first object is met."""
    from distributed.protocol.serialize import dask_serialize

    if "sparse" in sys.modules:
        _register_pickle()
        _keep_kernels()
    else:
        dask_serialize.register_lazy("sparse", _register_pickle)


def _register_pickle() -> None:
    import distributed.protocol.sparse  # noqa: F401 - first: later it would overwrite ours
    import sparse
    from distributed.protocol.serialize import dask_serialize

    dask_serialize.register(sparse.COO, _use_pickle)


def _keep_kernels() -> None:
    import sparse  # noqa: F401

    from ._floor.kernels import keep_all

    keep_all("sparse")


def _use_pickle(array: Any) -> Any:
    """Say that there is no special way: `distributed` then takes pickle, which keeps the fill."""
    raise NotImplementedError


def _protect_current_client() -> None:
    import distributed

    try:
        client = distributed.Client.current()
    except (ValueError, AttributeError):  # none, or `distributed` is half imported
        return
    if client.asynchronous:  # nobody can wait for its event loop from here
        client.loop.add_callback(_protect, client)
        return
    try:
        client.sync(_protect, client, callback_timeout=_PATIENCE)
    except TimeoutError:
        warn(
            f"the scheduler at {client.scheduler.address} did not answer within {_PATIENCE} s; "
            "sums of sparse arrays can be wrong on its workers. Call "
            "daskpart._sparse_fixes.protect(client) when it does"
        )


async def _protect(client: Any) -> None:
    plugin = _make_plugin()
    try:
        await client.register_plugin(plugin)
    except Exception as error:
        await client.unregister_worker_plugin(_PLUGIN_NAME)
        warn(
            f"the workers of {client.scheduler.address} cannot import daskpart ({error!r}); sums "
            "of sparse arrays can be wrong there. Install daskpart on every worker"
        )


def _make_plugin() -> Any:
    """Make the plugin: a local class, so it is pickled by value.

    Were it pickled by name, the event loop would import daskpart to do so, while the thread that is
    importing daskpart waits for the event loop. For the same reason `setup` imports nothing in a
    process where this module is loaded or being loaded.
    """
    from distributed import WorkerPlugin

    class SparseFixes(WorkerPlugin):
        __module__ = "__main__"  # plain pickle gives up on this without an import
        name = "daskpart-sparse-fixes"
        idempotent = True

        def setup(self, worker: Any) -> None:
            import importlib
            import sys

            if "daskpart._sparse_fixes" not in sys.modules:
                importlib.import_module("daskpart")
            fixes = sys.modules["daskpart._sparse_fixes"]
            fixes._send_whole()
            # half a second of importing, which whoever waits for this worker need not wait for
            worker.loop.run_in_executor(None, fixes._keep_kernels)

    return SparseFixes()
