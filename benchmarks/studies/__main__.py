"""Measure pages of the documentation anew, each by the command that it records.

    python -m benchmarks.studies                    # all of them: hours, on a quiet machine
    python -m benchmarks.studies latency twins      # these
    python -m benchmarks.studies --list             # which there are, measured at which commit

One page after the other, since two at once would measure each other. A page that fails is named at
the end and keeps its old numbers; the others are measured all the same.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import click

from benchmarks.studies.output import out_option

PAGES = Path("docs/benchmarks")


def recorded_commands(page: Path) -> list[list[str]]:
    """What was typed for a page, one list of words a command, without the folder it wrote to."""
    block = re.search(r"^```shell\n(.*?)\n```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    if block is None:
        raise click.ClickException(f"{page} records no command")
    typed = re.sub(r" --out \S+", "", block[1])
    return [shlex.split(command) for command in typed.split(" && ")]


def measured_at(page: Path) -> str:
    """The commit that a page names, and when it was begun."""
    text = page.read_text("utf-8")
    found = (re.search(r"commit (\S+?)\.?$", text, re.M), re.search(r"Begun (\S+ \S+)", text))
    return ", ".join(match[1] if match else "unknown" for match in found)


@click.command()
@click.argument("names", nargs=-1)
@click.option("--list", "only_list", is_flag=True, help="List the pages, measure none.")
@out_option
def main(names: tuple[str, ...], only_list: bool, out: Path) -> None:
    """Measure the pages NAMES (default: all) anew, each by the command that it records."""
    known = {page.stem: page for page in sorted(PAGES.glob("*.md"))}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.UsageError(f"no page {', '.join(unknown)}; there are {', '.join(known)}")
    failed = []
    for name in names or known:
        if only_list:
            click.echo(f"{name:24} {measured_at(known[name])}")
            continue
        start = time.perf_counter()
        for words in recorded_commands(known[name]):
            command = [sys.executable, *words[1:], "--out", str(out)]
            click.echo(shlex.join(command))
            if subprocess.run(command, check=False).returncode:
                failed.append(name)
                break
        click.echo(f"{name}: {time.perf_counter() - start:.0f} s")
    if failed:
        raise click.ClickException(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
