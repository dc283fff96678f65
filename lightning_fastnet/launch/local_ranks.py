"""Starts the ranks of this machine with torch's elastic multiprocessing, and says which one failed first and why."""

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.devices import cpu_threads
from lightning_fastnet.launch.signals import PARENT


class RankFailedError(RuntimeError):
    """A rank ended with an error of its own; the message holds that error, the first in time."""


def run_local_ranks(module: str, arguments: list[str], ranks: int, logs: Path) -> None:
    """Runs ``python -m module arguments`` as ``ranks`` processes that know each other (torchrun's environment), and waits.

    When one fails the others are ended. Rank 0 writes to this terminal, the others to ``logs/rank<r>.log``. The first Ctrl-C is passed
    on to the ranks, which may come to a good end; the second kills them.

    Raises:
        UserError: the first failing rank said in one sentence what was wrong with the input.
        RankFailedError: it failed in another way.
        KeyboardInterrupt, SystemExit: this process was told to stop, and the ranks have ended.
    """
    from torch.distributed import TCPStore
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, start_processes

    _hush("torch.distributed.elastic")  # what went wrong is told by our exceptions
    logs.mkdir(parents=True, exist_ok=True)
    # where the ranks meet: opened here, on a port that the system chose, so that no other process can take it in between
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    environ = {
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(cpu_threads(ranks))),
        "FASTNET_LOGS": str(logs),
        "PYTHONSAFEPATH": "1",  # a queue.py in the folder that the user stands in must not stand before Python's own
        PARENT: str(os.getpid()),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(store.port),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "GROUP_RANK": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }
    with _handlers_put_back():
        processes = start_processes(
            "rank",
            sys.executable,
            dict.fromkeys(range(ranks), ("-m", module, *arguments)),
            {rank: {**environ, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)},
            DefaultLogsSpecs(),
        )
        interrupts = _pass_on_interrupts(processes)
        try:
            while (result := processes.wait(timeout=0.2, period=0.1)) is None:
                if len(interrupts) > 1:
                    processes.close(signal.SIGKILL)
                    break
        except SignalException as caught:
            processes.close(signal.SIGTERM)
            sys.exit(128 + caught.sigval)
        if interrupts:
            raise KeyboardInterrupt
        if result is not None and result.is_failed():
            first = min(result.failures.values(), key=_how_early)
            raise _as_error(first.local_rank, first.error_file_data, first.exitcode, logs)


@contextmanager
def _handlers_put_back() -> Iterator[None]:
    """The elastic package installs its own signal handlers for good; a sweep comes by here many times."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _pass_on_interrupts(processes: Any) -> list[int]:
    """The list grows by one at each Ctrl-C. The ranks are in sessions of their own, so the terminal does not reach them."""
    interrupts: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        if len(interrupts) == 1:
            for pid in processes.pids().values():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGINT)

    signal.signal(signal.SIGINT, pass_on)
    return interrupts


def _hush(package: str) -> None:
    for name, logger in logging.Logger.manager.loggerDict.items():
        if name.startswith(package) and isinstance(logger, logging.Logger):
            logger.setLevel(logging.CRITICAL)


def _how_early(failure: Any) -> tuple[int, int]:
    """Orders failures, the cause first.

    When one rank leaves, the others fail a moment later, with a broken connection; torch's own times are whole seconds. No rank refuses
    the input, or dies of a signal other than the launcher's, because of another one.
    """
    file = Path(failure.error_file)
    if not file.is_file():
        return (1 if failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM else 3), 0
    message = failure.error_file_data.get("message")
    refused = isinstance(message, dict) and str(message.get("message")).startswith(f"{UserError.__name__}: ")
    return (0 if refused else 2), file.stat().st_mtime_ns


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
