"""What every study writes: a section of the docs, its numbers as CSV, and where they come from."""

from __future__ import annotations

import csv
import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

COMMAND = "Command: "
PACKAGES = ("daskpart", "numpy", "scipy", "numba", "pymetis", "libmf", "pyttb", "tensorly")

out_option: Callable = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="docs/benchmarks",
    show_default=True,
    help="Folder for NAME.md, NAME.png and data/NAME.csv.",
)


@dataclass(frozen=True)
class Origin:
    """Where numbers come from: machine, time, versions, command; taken when a study begins.

    Attributes
    ----------
    lines : tuple of str
        One fact each, the command last.
    """

    lines: tuple[str, ...]

    @classmethod
    def here(cls) -> Origin:
        """This machine, now."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
        load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
        python = f"Python {platform.python_version()}"
        system = f"{platform.system()} {platform.machine()}"
        return cls(
            (
                f"Machine: {_processor()}, {cores} cores, {system}.",
                f"Begun {now}, load average of the machine then {load}.",
                f"Versions: {', '.join([python, *_versions()])}{_commit()}.",
                f"{COMMAND}{_typed()}",
            )
        )

    @classmethod
    def of(cls, numbers: Path) -> Origin:
        """The origin of a file that `write_numbers` wrote."""
        with open(numbers, encoding="utf-8") as file:
            return cls(tuple(line[2:].rstrip("\n") for line in file if line.startswith("# ")))

    @property
    def command(self) -> str:
        """What was typed."""
        return self.lines[-1].removeprefix(COMMAND)


def _typed() -> str:
    """The command line, without the folder that it writes to: that is the reader's choice."""
    return re.sub(r" --out[ =]\S+", "", " ".join(["python", *sys.orig_argv[1:]]))


def _processor() -> str:
    """The processor's name, with family and model where the name alone says little."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown processor"
    facts = dict(
        (part.strip() for part in line.split(":", 1))
        for line in text.split("\n\n")[0].splitlines()
        if ":" in line
    )
    name = facts.get("model name", platform.processor() or "unknown processor")
    return f"{name} (family {facts.get('cpu family', '?')}, model {facts.get('model', '?')})"


def _versions() -> Iterable[str]:
    for package in PACKAGES:
        try:
            yield f"{package} {importlib.metadata.version(package)}"
        except importlib.metadata.PackageNotFoundError:
            continue


def _commit() -> str:
    """Which state of the repository runs, where git can say so."""
    told = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(told, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f", commit {done.stdout.strip()}"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as Markdown; floats keep four significant digits, whole numbers get their commas."""
    lines = [columns, ["---"] * len(columns), *([_cell(value) for value in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def verdict(asked: str, found: Iterable[tuple[str, float]], is_met: Callable[[float], bool]) -> str:
    """What was asked of some numbers, and which of them meet it; "" where there are none."""
    told: dict[bool, list[str]] = {True: [], False: []}
    for what, value in found:
        told[bool(is_met(value))].append(f"{what} ({_cell(value)})")
    named = [f" {name}: {'; '.join(each)}." for name, each in (("Met", told[True]),
             ("Missed", told[False])) if each]  # fmt: skip
    return f"Asked: {asked}.{''.join(named)}" if named else ""


def _cell(value: Any) -> str:
    if value is None or value != value:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)


def write_section(folder: Path, name: str, title: str, body: str, origin: Origin) -> None:
    """Write NAME.md: title, body, and where the numbers come from."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = "\n".join(f"- {line}" for line in origin.lines[:-1])
    link = f"- All numbers: `docs/benchmarks/data/{name}.csv`."
    text = f"## {title}\n\n{body}\n\n{facts}\n{link}\n\n```shell\n{origin.command}\n```\n"
    (folder / f"{name}.md").write_text(text, encoding="utf-8")


def write_numbers(
    folder: Path, name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], origin: Origin
) -> None:
    """Write data/NAME.csv; its first lines, behind #, say where the numbers come from."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    with open(folder / "data" / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {line}\n" for line in origin.lines)
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])
