"""Options of the command: its own are written down, those of a model are read off its estimator.

    signature of __init__     name, default        --n-components, 32
    _parameter_constraints    what is allowed      a whole number of at least 1
    docstring                 words of --help      "F, length of a factor row."

Amounts are taken as people write them: 80000, 80_000, 8e4, and of bytes also 1MB.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from daskpart.errors import DaskpartError, InputError

_OTHER_NAMES = {"n_components": "--components", "n_ranks": "--ranks"}
_ELSEWHERE = ("see daskpart.MatrixFactorization", "see 'daskpart fit mf --help'")
_OF_PYTHON = " A RandomState or None draws the seed."
_FILES_READ = "daskpart.files_read"
_GIVEN_TO_FIT = re.compile(r"\w+=… or (?=validation_fraction)")  # what is held out, from Python
_ONLY_IN_PYTHON = {
    ", or eval_set=(X, y) of your own": "",
    ", or leave a mode free (nonnegative=[…])": "",
    "a dict of the arguments of daskpart.partition, a Partition, or an array with the part of each "
    "vertex": "arguments of daskpart.partition, KEY=VALUE,…, or a FILE.npz of 'daskpart partition'",
}
_CHANGE = r"\b(?:leave(?= \w+ out\b)|[Ll]ower|[Rr]aise|smaller|larger)"
_NO_PATH = r"""(?<![\w./\\'"-])"""  # before a name: what is inside of a path or of quotes is data
# the command shows its progress, each run is one fit, and factors are arrays
_LEFT_OUT = {"verbose", "warm_start", "fixed_modes"}


class Switch(click.ParamType):
    """Yes or no, or "auto"."""

    name, letters = "switch", "yes|no|auto"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """True, False or "auto"."""
        return value if value == "auto" else click.BOOL.convert(value, param, ctx)


class Count(click.IntRange):
    """A whole number, also as 80_000 or 8e4."""

    letters = "N"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """The number; a one-line error for anything else."""
        if isinstance(value, str):
            try:
                number = self._read(value)
            except (ValueError, OverflowError):
                self.fail(f"{value!r}: {self._words}", param, ctx)
            if number != int(number):
                self.fail(f"{value!r}: it must be a whole number, such as 80000 or 8e4", param, ctx)
            value = int(number)
        return super().convert(value, param, ctx)

    _words = "write a whole number, such as 80000, 80_000 or 8e4"

    def _read(self, text: str) -> float:
        try:
            return int(text)
        except ValueError:
            number = float(text)
            if not abs(number) < 2**63:
                raise
            return number


class CountOrShare(click.ParamType):
    """A whole number of at least 1, or a share between 0 and 1."""

    name, letters = "count or share", "N|SHARE"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The number, whole or not."""
        try:
            share = float(value)
        except ValueError:
            share = 1.0  # Count says what is wrong with it
        return share if 0 < share < 1 else COUNT.convert(value, param, ctx)


class Several(click.FloatRange):
    """A number, or several with commas between them."""

    letters = "X[,X…]"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The number, or a list of them."""
        given: list[Any] = value.split(",") if isinstance(value, str) else [value]
        for place, each in enumerate(given, 1):
            if str(each).strip():
                continue
            which = f"number {place} of {value!r}" if len(given) > 1 else "the number"
            self.fail(f"{which} is missing: write 0.03, or 0.03,0.1 for two", param, ctx)
        numbers = [super(Several, self).convert(each, param, ctx) for each in given]
        return numbers if len(numbers) > 1 else numbers[0]


class Widths(Count):
    """A width of some; 0 alone: none of them."""

    _words = "write a whole number, such as 64, and the option once for each"

    def __init__(self) -> None:
        super().__init__(min=0)

    @staticmethod
    def without(ctx: Any, param: Any, values: tuple[int, ...]) -> tuple[int, ...]:
        """The widths, () where 0 was said; an error where it stands among others."""
        if values == (0,):
            return ()
        if 0 in values:
            raise click.BadParameter("0 says that there is none, so it stands alone", ctx, param)
        return values


class Bytes(Count):
    """An amount of bytes, also as 1MB or 8 KiB."""

    letters = "SIZE"

    _words = "write an amount of bytes, such as 80000, 8e4, 1MB or 1MiB"

    def _read(self, text: str) -> float:
        try:
            return super()._read(text)
        except ValueError:
            from dask.utils import parse_bytes

            return parse_bytes(text)


class Partitioner(click.ParamType):
    """What an estimator takes as `partitioner`: a name, a file, or arguments of `partition`."""

    name, letters = "partitioner", "NAME|FILE.npz|KEY=VALUE,…"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """A name as it is, a Partition, or a dict."""
        if not isinstance(value, str):
            return value
        if value.endswith(".npz"):
            from daskpart.partitions import Partition

            if not Path(value).expanduser().is_file():
                self.fail(f"{value}: no such file; 'daskpart partition' writes one", param, ctx)
            if ctx is not None:
                ctx.meta.setdefault(_FILES_READ, []).append(value)
            return Partition.load(value)
        if "=" not in value:
            return value
        pairs = [entry.partition("=") for entry in value.split(",")]
        return {name.strip(): _number_or_text(text.strip()) for name, _, text in pairs}


class Arguments(Partitioner):
    """Parameters by name."""

    name, letters = "arguments", "KEY=VALUE,…"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """A dict; a one-line error for a word alone."""
        if isinstance(value, str) and "=" not in value:
            self.fail(f"{value!r}: write name=value, with commas between several", param, ctx)
        return super().convert(value, param, ctx)


class Place(click.Path):
    """A path, ~ being home: a shell leaves it as it is behind an equals sign."""

    def __init__(self, **rules: Any) -> None:
        super().__init__(**rules, path_type=Path)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The path, checked; "" is refused, which would be the current folder."""
        if value == "":
            self.fail("the path is empty: give a name, or . for the current folder", param, ctx)
        return super().convert(Path(value).expanduser(), param, ctx)


def _number_or_text(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


COUNT = Count(min=1)
POSITIVE = click.FloatRange(min=0, min_open=True)
SHARE = click.FloatRange(min=0, max=1, max_open=True)
HELD_OUT = (
    "Share of the {} held out to judge by; the model has not seen them, so 'daskpart recommend' "
    "may give them."
)
SEED = Count(min=0)
SHARES = Several(min=0)


def format_of(formats: Sequence[str]) -> click.Option:
    """The option ``--format`` of a command that reads these."""
    words = f"Format of the file: {', '.join(formats)}.  [default: told from the file]"
    return click.Option(["--format"], metavar="NAME", help=words)


def of_table() -> list[click.Option]:
    """Options that say how a table of ratings or events is written."""
    words = {
        "--user": "Column of users, of a file with a header.",
        "--item": "Column of items, of a file with a header.",
        "--rating": "Column of ratings, counts or amounts, of a file with a header. Where only "
        "--user and --item are given, each line counts once.",
    }
    return [
        *(click.Option([name], metavar="NAME", help=told) for name, told in words.items()),
        click.Option(["--header/--no-header"], default=None,
                     help="Whether the first line of text names the columns."),
        click.Option(["--text-ids"], is_flag=True, default=None,
                     help="Users and items are words, though the first ones are numbers."),
    ]  # fmt: skip


def number(name: str, default: Any, words: str, kind: Any) -> click.Option:
    """An option that takes a number; None as default shows nothing of it."""
    return _option([name], default, words, kind)


def many(name: str, words: str, default: tuple[int, ...] | None = None) -> click.Option:
    """An option that takes a whole number and may be repeated."""
    return _option([name], default, words, COUNT, multiple=True)


def choice(name: str, values: tuple[str, ...], default: str | None, words: str) -> click.Option:
    """An option that takes one of some words."""
    return _option([name], default, words, click.Choice(values))


def _option(names: Sequence[str], default: Any, words: str, kind: Any, **more: Any) -> click.Option:
    letters = getattr(kind, "letters", "X" if isinstance(kind, click.FloatRange) else None)
    return click.Option(names, type=kind, default=default, show_default=default is not None,
                        metavar=letters, help=words, **more)  # fmt: skip


def file(name: str, words: str, metavar: str = "FILE") -> click.Option:
    """An option that takes the path of a file; a folder that it is written to may be absent."""
    return click.Option([name], type=Place(dir_okay=False), metavar=metavar, help=words)


def output(default: str) -> click.Option:
    """The option ``--out``, a folder."""
    return click.Option(["--out"], type=Place(file_okay=False), default=Path(default),
                        show_default=True,
                        help="Folder for all results; made if absent.")  # fmt: skip


def pictures() -> click.Option:
    """The option ``--plots``."""
    names = ["--plots/--no-plots"]
    return click.Option(names, default=True, show_default=True, help="Draw pictures.")


def options(*given: click.Option) -> Any:
    """Several options as one decorator, in the order in which `--help` lists them."""

    def decorate(command: Any) -> Any:
        known = getattr(command, "__click_params__", [])
        command.__click_params__ = [*known, *reversed(given)]
        return command

    return decorate


class Command(click.Command):
    """A command whose errors name options where those of Python name parameters."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        try:
            return super().invoke(ctx)
        except DaskpartError as error:
            error.args = (in_options(str(error)),)
            raise


# -- what was typed ---


def is_typed(name: str) -> bool:
    """Whether an option of the command that runs was given by hand."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def files_read() -> Sequence[str]:
    """Paths of the files that options of the command that runs were read from, and do not keep."""
    return click.get_current_context().meta.get(_FILES_READ, ())


def refuse(names: Sequence[str], words: str) -> None:
    """End with an error where one of these options was typed: it would be passed over."""
    for name in names:
        if is_typed(name):
            raise InputError(f"{words}: leave out --{name.replace('_', '-')}")


def in_options(words: str) -> str:
    """Words of Python with its parameters as options of the command that runs.

    Those that are English words, too, are left where nothing shows that they are meant: that they
    have a value, need something, or are to be changed. So is what stands inside of a list,
    as of what another function takes.
    """
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return words
    told = {
        str(each.name): next((opt for opt in each.opts if opt.startswith("--")), each.opts[0])
        for each in ctx.command.params
        if isinstance(each, click.Option)
    }
    off = {
        str(each.name): each.secondary_opts[0] for each in ctx.command.params if each.secondary_opts
    }
    of_parts = next((name for name in ("parts", "n_ranks") if name in told), None)
    if of_parts is not None:
        told["n_parts"] = told[of_parts]
    if not told:
        return words
    known, clear = (
        "|".join(map(re.escape, names))
        for names in (told, filter(re.compile(r".*[_\d]|tol$|eta$").match, told))
    )

    def option(found: re.Match[str]) -> str:
        return told[found[0]]

    def with_value(found: re.Match[str]) -> str:
        name, truth = found[1], found[2]
        if truth == "True":  # a flag has no value
            return told[name]
        if truth == "False" and name in off:
            return off[name]
        return f"{told[name]} {truth or found[4] or ''}"

    for python, shell in _ONLY_IN_PYTHON.items():
        words = words.replace(python, shell)
    words = _GIVEN_TO_FIT.sub("", words)
    words = re.sub(
        rf"^(?:{known})(?:(?:, | and )(?:{known}))*(?= needs? | goes )",
        lambda found: re.sub(rf"\b(?:{known})\b", option, found[0]),
        words,
    )
    words = re.sub(rf"({_CHANGE}) ({known})\b", lambda found: f"{found[1]} {told[found[2]]}", words)
    words = re.sub(
        rf"""{_NO_PATH}({known})=(?:(True\b|False\b)|(['"])([\w-]+)\3|(?=\S))""", with_value, words
    )
    in_list = rf"(?<=, )(?:{clear}),"
    return re.sub(
        rf"{_NO_PATH}(?!{in_list})(?:{clear or '(?!)'})(?![\w/\\'\"=-]|\.\w)", option, words
    )


# -- from an estimator ---


def of_estimator(kind: type, other_words: Mapping[str, str]) -> list[click.Option]:
    """An option for each parameter of an estimator that a word or a number can give.

    Parameters
    ----------
    kind : type
        A `DistributedEstimator` with numpydoc text and constraints.
    other_words : mapping of str to str
        Help of the parameters whose text tells of values that only Python can give.
    """
    words = parameter_words(kind)
    found = []
    for name, parameter in inspect.signature(kind).parameters.items():
        if name not in _LEFT_OUT:
            types, text = words.get(name, ("", ""))
            text = other_words.get(name, text)
            allowed = kind._parameter_constraints.get(name, [])  # type: ignore[attr-defined]
            option = _of_parameter(name, parameter.default, _type(allowed, types), text)
            found += [] if option is None else [option]
    return found


def parameter_words(kind: type) -> dict[str, tuple[str, str]]:
    """Of each parameter in a numpydoc docstring what stands behind the colon, and below it."""
    text = inspect.getdoc(kind) or ""
    section = text.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^(\w[\w, ]*?) : (.*)\n?((?:    .*\n?)*)", section, re.MULTILINE)
    return {
        name: (types, _plain(below))
        for names, types, below in entries
        for name in names.split(", ")
    }


def _plain(text: str) -> str:
    """Words of a docstring as `--help` shows them."""
    words = " ".join(text.split()).replace("`", "").removesuffix(_OF_PYTHON)
    words = words.replace(*_ELSEWHERE)
    words = re.sub(r"(^|\. )None:", r"\1Not given:", words)
    return words.replace("None:", "not given:")


def _of_parameter(name: str, default: Any, kind: Any, words: str) -> click.Option | None:
    dashed = f"--{name.replace('_', '-')}"
    if kind is bool:
        declared = f"{dashed}/--no-{dashed[2:]}" if default else dashed
        return click.Option([declared], is_flag=True, default=default, show_default=bool(default),
                            help=words)  # fmt: skip
    if kind is None:
        return None
    names = [dashed, *([_OTHER_NAMES[name]] if name in _OTHER_NAMES else []), name]
    if isinstance(default, tuple):
        words += " May be repeated; 0: none."
        return _option(names, default, words, Widths(), multiple=True, callback=Widths.without)
    return _option(names, default, words, kind)


def _type(allowed: list[Any], types: str) -> Any:
    """The first of the constraints that text can meet; None if there is none."""
    from sklearn.utils._param_validation import Interval, StrOptions

    ranges = [each for each in allowed if isinstance(each, Interval)]
    if {each.type for each in ranges} == {Integral, Real}:
        return CountOrShare()
    for constraint in allowed:
        if constraint == "boolean" and any(isinstance(each, StrOptions) for each in allowed):
            return Switch()
        if isinstance(constraint, StrOptions):
            told = dict.fromkeys(re.findall(r'"([^"]+)"', types))
            known = [word for word in told if word in constraint.options]
            return click.Choice([*known, *sorted(constraint.options - {*known})])
        if isinstance(constraint, Interval):
            return _range(constraint)
        if constraint == "boolean":
            return bool
        if constraint == "random_state":
            return SEED
        if constraint is os.PathLike:
            return Place()
        if constraint is dict:
            return Partitioner() if str in allowed else Arguments()
    return None


def _range(interval: Any) -> click.ParamType:
    ends: dict[str, Any] = {
        name: None if end is None or abs(end) == float("inf") else end
        for name, end in (("min", interval.left), ("max", interval.right))
    }
    if interval.type is Integral:
        return Count(**ends)
    return click.FloatRange(
        **ends,
        min_open=ends["min"] is not None and interval.closed in ("right", "neither"),
        max_open=ends["max"] is not None and interval.closed in ("left", "neither"),
    )
