"""Whether a fit may go on from a state: every setting that decides its bits must be the same."""

from __future__ import annotations

import os
from typing import Any

from daskpart.errors import InputError

from .storage import plain


def require_same_fit(
    kept: dict[str, Any], wanted: dict[str, Any], source: str | os.PathLike
) -> None:
    """Check that the settings of a kept state are those of the fit that would go on from it.

    Parameters
    ----------
    kept, wanted : dict
        Settings as JSON takes them.
    source : path
        Where the state was kept, for the message.

    Raises
    ------
    InputError
        When anything differs; names both values of each difference.
    """
    ours, theirs = plain(kept), plain(wanted)
    differences = [
        f"{name}: {_shown(ours, name)} there, {_shown(theirs, name)} now"
        for name in sorted({*ours, *theirs})
        if _shown(ours, name) != _shown(theirs, name)
    ]
    if differences:
        raise InputError(
            f"{source} belongs to another fit ({'; '.join(differences)}). Use the same "
            "settings and data to resume, or give another checkpoint_path."
        )


def _shown(settings: dict[str, Any], name: str) -> str:
    return repr(settings[name]) if name in settings else "not set"
