"""Formulas as MathML, made by docutils: pages that need no script and no network to be read.

Sphinx's own renderers either load MathJax from the network or call LaTeX. Browsers have drawn
MathML by themselves since 2023.
"""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx


def mathml(formula: str, as_block: bool = False) -> str:
    """One formula; its brackets keep their size, as docutils already says of round ones."""
    text = latex2mathml.tex2mathml(formula, as_block=as_block)
    return re.sub(r"<mo>([⟨⟩‖|])</mo>", r'<mo stretchy="false">\1</mo>', text)


def visit_inline(translator: nodes.NodeVisitor, node: nodes.math) -> None:
    translator.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def visit_block(translator: nodes.NodeVisitor, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math-block">{mathml(node.astext(), True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
