"""The console script: it answers Ctrl-C from its first import on, and finds the user's own modules."""

import os
import sys


def train() -> None:
    """``fastnet-train``."""
    modules_here_last()
    try:
        from lightning_fastnet.cli.train import main
    except KeyboardInterrupt:
        sys.exit(130)
    main()


def modules_here_last() -> None:
    """A ``_target_`` may name a module in the current folder, but a file of that folder never stands before an installed package."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
