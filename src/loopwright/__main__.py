"""The command line: ``loopwright`` and ``python -m loopwright``."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line, if what it needs is installed; return the exit code."""
    try:
        from loopwright.console import main as run
    except ModuleNotFoundError as error:
        if error.name not in ("rich", "typer"):
            raise
        sys.stderr.write(
            f"loopwright: the command line needs {error.name}, which is not installed; "
            "run: pip install 'loopwright[cli]'\n"
        )
        return 2
    return run()


if __name__ == "__main__":
    sys.exit(main())
