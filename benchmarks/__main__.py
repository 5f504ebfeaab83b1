"""Run the asv classes without asv: `python -m benchmarks [PATTERN] [--out FILE.csv]`.

Understands what the classes here use: params and param_names, setup and teardown, `time_*`,
`track_*` and `peakmem_*`; NotImplementedError in setup skips a case.
"""

from __future__ import annotations

import csv
import importlib
import itertools
import multiprocessing
import pkgutil
import platform
import re
import resource
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from time import perf_counter
from typing import Any

import click

import benchmarks

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


def measure(suite: type, method: str, parameters: tuple) -> tuple[float, str]:
    """One case: seconds (best of at least three runs), a tracked value, or peak memory in MB."""
    if method.startswith("peakmem_"):
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            return pool.submit(_peak_memory, suite, method, parameters).result(), "MB"
    instance = suite()
    _call(instance, "setup", parameters)
    try:
        run = getattr(instance, method)
        if method.startswith("track_"):
            return float(run(*parameters)), getattr(run, "unit", "")
        return _best_time(run, parameters), "s"
    finally:
        _call(instance, "teardown", parameters)


def _call(instance: Any, name: str, parameters: tuple) -> None:
    if hasattr(instance, name):
        getattr(instance, name)(*parameters)


def _best_time(run: Any, parameters: tuple) -> float:
    seconds: list[float] = []
    while len(seconds) < 3 or (sum(seconds) < 0.5 and len(seconds) < 20):
        begin = perf_counter()
        run(*parameters)
        seconds.append(perf_counter() - begin)
    return min(seconds)


def _peak_memory(suite: type, method: str, parameters: tuple) -> float:
    instance = suite()
    _call(instance, "setup", parameters)
    getattr(instance, method)(*parameters)
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / (1024**2 if sys.platform == "darwin" else 1024)


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
