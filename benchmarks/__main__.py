"""Run the asv classes without asv: `python -m benchmarks [PATTERN] [--out FILE.csv]`.

Understands what the classes here use: params and param_names, setup and teardown, `time_*`,
`track_*` and `peakmem_*`; NotImplementedError in setup skips a case.
"""

from __future__ import annotations

import csv
import importlib
import itertools
import pkgutil
import platform
import re
from collections.abc import Iterator

import click

import benchmarks
from benchmarks.measuring import measure

COLUMNS = ("benchmark", "case", "value", "unit")


def cases(pattern: str) -> Iterator[tuple[type, str, tuple]]:
    """Every (class, method, parameters) whose name matches."""
    for module_info in pkgutil.iter_modules(benchmarks.__path__):
        if module_info.name.startswith("_"):
            continue
        module = importlib.import_module(f"benchmarks.{module_info.name}")
        for suite in vars(module).values():
            if not isinstance(suite, type) or suite.__module__ != module.__name__:
                continue
            for method in sorted(n for n in dir(suite) if re.match("(time|track|peakmem)_", n)):
                if re.search(pattern, f"{module_info.name}.{suite.__name__}.{method}"):
                    for parameters in itertools.product(*_parameter_lists(suite)):
                        yield suite, method, parameters


def _parameter_lists(suite: type) -> list[list]:
    given = list(getattr(suite, "params", []))
    return given if not given or isinstance(given[0], list | tuple) else [given]


@click.command()
@click.argument("pattern", default="")
@click.option("--out", type=click.Path(dir_okay=False), help="Write the table as CSV.")
@click.option("--list", "only_list", is_flag=True, help="List the cases, run none.")
def main(pattern: str, out: str | None, only_list: bool) -> None:
    """Run benchmarks whose module.class.method matches PATTERN (a regular expression)."""
    click.echo(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    lines = []
    for suite, method, parameters in cases(pattern):
        names = getattr(suite, "param_names", [f"p{i}" for i in range(len(parameters))])
        case = ", ".join(f"{n}={p}" for n, p in zip(names, parameters, strict=False))
        name = f"{suite.__module__.removeprefix('benchmarks.')}.{suite.__name__}.{method}"
        if only_list:
            click.echo(f"{name}({case})")
            continue
        try:
            value, unit = measure(suite, method, parameters)
        except NotImplementedError as reason:
            click.echo(f"{name}({case}): skipped, {reason}")
            continue
        click.echo(f"{name}({case}): {value:.6g} {unit}")
        lines.append((name, case, value, unit))
    if out is not None:
        with open(out, "w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *lines])


if __name__ == "__main__":
    main()
