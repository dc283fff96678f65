"""Real gloo ranks for tests."""

import multiprocessing as mp
import os
import queue
import socket
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 120.0


def run_ranks(function: Callable[..., Any], world_size: int, *arguments: Any, timeout: float = TIMEOUT_SECONDS) -> list[Any]:
    """Runs ``function(rank, world_size, *arguments)`` on ``world_size`` processes joined by gloo, and returns their results by rank.

    Each process has torchrun's environment, one thread, and an initialised process group. The first error of a rank is raised here
    with its traceback, and the others are killed; so are all when ``timeout`` seconds have passed.

    Args:
        function: a module-level function; its results travel by pickle (tensors as numpy arrays or lists).
    """
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.distributed", "lightning.pytorch"])
    results: Any = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        processes = [
            context.Process(
                target=_rank, args=(function, rank, world_size, arguments, str(Path(folder) / "store"), port, results), daemon=True
            )
            for rank in range(world_size)
        ]
        for process in processes:
            process.start()
        try:
            return _gather(results, processes, world_size, timeout)
        finally:
            for process in processes:
                if process.is_alive():
                    process.kill()
                process.join()


def _gather(results: Any, processes: list[Any], world_size: int, timeout: float) -> list[Any]:
    values: dict[int, Any] = {}
    deadline = time.monotonic() + timeout
    while len(values) < world_size:
        try:
            rank, value, error = results.get(timeout=0.2)
        except queue.Empty:
            if time.monotonic() > deadline:
                missing = sorted(set(range(world_size)) - set(values))
                raise TimeoutError(f"ranks {missing} gave no result within {timeout} s") from None
            dead = [rank for rank, process in enumerate(processes) if process.exitcode not in (None, 0) and rank not in values]
            if dead:
                raise RuntimeError(f"rank {dead[0]} died with exit status {processes[dead[0]].exitcode}") from None
            continue
        if error is not None:
            raise RuntimeError(f"rank {rank} failed:\n{error}")
        values[rank] = value
    return [values[rank] for rank in range(world_size)]


def _rank(
    function: Callable[..., Any], rank: int, world_size: int, arguments: tuple[Any, ...], store: str, port: int, results: Any
) -> None:
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        GROUP_RANK="0",
        WORLD_SIZE=str(world_size),
        LOCAL_WORLD_SIZE=str(world_size),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world_size)
        value = function(rank, world_size, *arguments)
        results.put((rank, value, None))
        dist.barrier()  # nobody leaves while another still needs it
        dist.destroy_process_group()
    except BaseException:
        results.put((rank, None, traceback.format_exc()))


def free_port() -> int:
    """A TCP port that nobody listens on just now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
