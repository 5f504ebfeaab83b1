"""What every test shares: the hypothesis profiles, Ctrl-C, and the folder of real data sets."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("default", deadline=None, max_examples=40, derandomize=True)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=500)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# a shell that starts pytest in the background has it pass over Ctrl-C, which some tests press
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets; the test is skipped where there is none."""
    beside_checkout = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("DASKPART_DATA", beside_checkout))
    if not folder.is_dir():
        pytest.skip(f"no data sets at {folder} (set DASKPART_DATA to where they are)")
    return folder
