"""The script `daskpart`, and ``python -m daskpart`` where the script is not on the path."""

from __future__ import annotations

_INTERRUPTED = 130


def main() -> None:
    """Run the command line; Ctrl-C is answered from its first import on."""
    try:
        from .cli import main as command
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None
    command()


if __name__ == "__main__":
    main()
