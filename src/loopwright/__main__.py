"""The command line: ``loopwright`` and ``python -m loopwright``."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""


if __name__ == "__main__":
    main()
