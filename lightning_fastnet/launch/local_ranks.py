"""Starts the ranks of this machine with torch's elastic launcher, and says which one failed first and why."""

import logging
import os
import secrets
import signal
import sys
from pathlib import Path

from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.devices import cpu_threads


class RankFailedError(RuntimeError):
    """A rank ended with an error of its own; the message holds that error, the first in time."""


def run_local_ranks(module: str, arguments: list[str], ranks: int, logs: Path) -> None:
    """Runs ``python -m module arguments`` as ``ranks`` processes that know each other (torchrun's environment), and waits.

    When one fails the others are ended. Rank 0 writes to this terminal, the others to ``logs/rank<r>.log``.

    Raises:
        UserError: the first failing rank said in one sentence what was wrong with the input.
        RankFailedError: it failed in another way.
        KeyboardInterrupt, SystemExit: this process was told to stop, and has ended the ranks.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    _hush("torch.distributed.elastic")  # what went wrong is told by our exceptions
    logs.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OMP_NUM_THREADS", str(cpu_threads(ranks)))
    os.environ["FASTNET_LOGS"] = str(logs)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        run_id=secrets.token_hex(4),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=0,
        monitor_interval=0.1,
        logs_specs=DefaultLogsSpecs(),
    )
    try:
        elastic_launch(config, sys.executable)("-m", module, *arguments)
    except ChildFailedError as failed:
        rank, failure = failed.get_first_failure()
        raise _as_error(rank, failure.error_file_data, failure.exitcode, logs) from None
    except SignalException as caught:  # the ranks are ended already
        if caught.sigval == signal.SIGINT:
            raise KeyboardInterrupt from None
        sys.exit(128 + caught.sigval)


def _hush(package: str) -> None:
    for name, logger in logging.Logger.manager.loggerDict.items():
        if name.startswith(package) and isinstance(logger, logging.Logger):
            logger.setLevel(logging.CRITICAL)


def _as_error(rank: int, error_file: dict[str, object], exit_code: int, logs: Path) -> Exception:
    message = error_file.get("message")
    if isinstance(message, dict):
        text, trace = str(message["message"]), str(message.get("extraInfo", {}).get("py_callstack", ""))
        kind, _, sentence = text.partition(": ")
        if kind == UserError.__name__:
            return UserError(sentence)
        return RankFailedError(f"{trace}\nRank {rank} failed first, with {text}")
    how = f"was ended by signal {-exit_code}" if exit_code < 0 else f"left with exit status {exit_code}"
    return RankFailedError(f"Rank {rank} failed first: it {how} without a Python error; see {logs}.")
