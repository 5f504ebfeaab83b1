"""What a Python module says, from its syntax tree: identifiers with their roles, and imports.

    import os                       os imported
    def walk(top, limit=3):         walk defined, top argument, limit argument
        names = os.listdir(top)     names assigned, listdir called, os read, top read

The roles are read off the tree rather than off the tokens: a tree tells a call from an attribute,
and it is the same whether the tokenizer looks inside f-strings (3.12 and later) or not (3.11).
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

ROLES = (
    "argument",
    "assigned",
    "attribute",
    "base",
    "called",
    "decorator",
    "defined",
    "imported",
    "keyword",
    "read",
)
_DEFINITIONS = (
    "FunctionDef",
    "AsyncFunctionDef",
    "ClassDef",
    "TypeVar",
    "ParamSpec",
    "TypeVarTuple",
)
_BINDERS = {"ExceptHandler": "name", "MatchAs": "name", "MatchStar": "name", "MatchMapping": "rest"}


@dataclass(frozen=True)
class ModuleFacts:
    """`roles` counts (identifier, role); `imports` lists (module written, name or None, level)."""

    roles: Counter[tuple[str, str]]
    imports: list[tuple[str, str | None, int]]


def facts_of(source: bytes) -> ModuleFacts:
    """Read a module, as its file is: its encoding declaration is obeyed.

    Raises
    ------
    SyntaxError, ValueError, RecursionError
        As `ast.parse`: this Python cannot parse the file.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in others' code are no news
        tree = ast.parse(source)
    uses: dict[int, str] = {}  # nodes whose parent tells their role; parents are walked first
    nodes = list(ast.walk(tree))
    roles = Counter(pair for node in nodes for pair in _named_by(node, uses))
    imports: list[tuple[str, str | None, int]] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            imports += [(alias.name, None, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports += [(node.module or "", alias.name, node.level) for alias in node.names]
    return ModuleFacts(roles, imports)


def _named_by(node: ast.AST, uses: dict[int, str]) -> Iterator[tuple[str, str]]:
    """The (identifier, role) pairs that a node itself names; notes in `uses` what children are."""
    if isinstance(node, ast.Name):
        yield node.id, uses.get(id(node)) or _by_context(node.ctx, "read")
    elif isinstance(node, ast.Attribute):
        yield node.attr, uses.get(id(node)) or _by_context(node.ctx, "attribute")
    elif isinstance(node, ast.Call):
        uses[id(node.func)] = uses.get(id(node), "called")
    elif isinstance(node, ast.arg):
        yield node.arg, "argument"
    elif isinstance(node, ast.keyword):
        if node.arg is not None:
            yield node.arg, "keyword"
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        written = [alias.name for alias in node.names] + [
            alias.asname or "" for alias in node.names
        ]
        written.append(getattr(node, "module", None) or "")
        for name in written:
            yield from ((part, "imported") for part in name.split(".") if part not in ("", "*"))
    elif type(node).__name__ in _DEFINITIONS:
        yield node.name, "defined"  # type: ignore[attr-defined]
        uses.update((id(each), "decorator") for each in getattr(node, "decorator_list", ()))
        uses.update((id(each), "base") for each in getattr(node, "bases", ()))
    elif type(node).__name__ in _BINDERS:
        name = getattr(node, _BINDERS[type(node).__name__])
        if name is not None:
            yield name, "assigned"


def _by_context(context: ast.expr_context, when_loaded: str) -> str:
    return when_loaded if isinstance(context, ast.Load) else "assigned"


def imported_modules(
    module: str, is_package: bool, facts: ModuleFacts, known: frozenset[str]
) -> Counter[str]:
    """How often `module` imports each of the `known` modules, itself left out.

    ``from a import b`` counts for ``a.b`` where that is a module, else for ``a``; a module that is
    not known counts for the nearest known package above it, if any.
    """
    parts = module.split(".") if is_package else module.split(".")[:-1]
    found: Counter[str] = Counter()
    for written, name, level in facts.imports:
        base = written.split(".") if written else []
        if level > len(parts) + 1:  # above the root: Python refuses such an import
            continue
        if level:
            base = parts[: len(parts) - (level - 1)] + base
        candidate = [*base, *([name] if name else [])]
        while candidate and ".".join(candidate) not in known:
            candidate.pop()
        if candidate and ".".join(candidate) != module:
            found[".".join(candidate)] += 1
    return found
