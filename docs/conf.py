"""How the documentation is built: from the docstrings, the guides, and the notebook in examples/.

Nothing here reaches the network: no intersphinx, formulas as MathML, notebooks on built-in data.
"""

from __future__ import annotations

import atexit
import shutil
import sys
from functools import partialmethod
from importlib.metadata import version as installed_version
from pathlib import Path
from tempfile import TemporaryDirectory

from nbclient import NotebookClient
from traitlets.config import Config

DOCS = Path(__file__).resolve().parent
EXAMPLES = DOCS.parent / "examples"
sys.path.insert(0, str(DOCS / "_ext"))


def copy_notebooks() -> None:
    """Sphinx reads sources below docs/ only; the notebooks live where users look for them."""
    target = DOCS / "notebooks"
    target.mkdir(exist_ok=True)
    for notebook in EXAMPLES.glob("*.ipynb"):
        copy = target / notebook.name
        if not copy.exists() or copy.read_bytes() != notebook.read_bytes():
            shutil.copy(notebook, copy)


copy_notebooks()


def talk_to_kernels_by_files() -> None:
    """Sockets of kernels are files of this build.

    A TCP port is chosen before its kernel starts, and may have gone to another process by then.
    """
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    sockets = Config(ConnectionFileMixin={"transport": "ipc", "ip": f"{folder.name}/kernel"})
    NotebookClient.__init__ = partialmethod(NotebookClient.__init__, config=sockets)


talk_to_kernels_by_files()

project = "daskpart"
author = "the daskpart developers"
copyright = author
version = release = installed_version("daskpart")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "mathml",
    "measured",
]
exclude_patterns = ["_build", "benchmarks/*.md", "jupyter_execute", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]
default_role = "py:obj"

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's own sections say the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the class page documents each in full

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

html_theme = "pydata_sphinx_theme"
html_title = "daskpart"
html_static_path = ["_static"]
html_css_files = ["daskpart.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
}
html_sidebars = {page: [] for page in ("index", "getting_started", "design")}


def leave_out_generated(app, what, name, obj, skip, options):  # type: ignore[no-untyped-def]
    """`set_output`, `set_fit_request` and such: their texts link into pages of scikit-learn."""
    requests = name.startswith("set_") and name.endswith("_request")
    return True if requests or name == "set_output" else None


def setup(app):  # type: ignore[no-untyped-def]
    app.connect("autodoc-skip-member", leave_out_generated)
