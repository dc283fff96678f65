"""A rank for test_local_ranks: ``python -m tests.launch.child WHAT FOLDER``."""

import os
import signal
import sys
import time
from pathlib import Path

from torch.distributed.elastic.multiprocessing.errors import record

from lightning_fastnet.errors import UserError


@record
def main() -> None:
    what, folder, rank = sys.argv[1], Path(sys.argv[2]), os.environ["RANK"]
    (folder / f"rank{rank}").write_text(f"{os.environ['WORLD_SIZE']} {os.environ['OMP_NUM_THREADS']} {os.getpid()}")
    while not all((folder / f"rank{other}").exists() for other in (0, 1)):
        time.sleep(0.01)
    if rank == "1" and what == "user_error":
        raise UserError("rank 1 was told to refuse.")
    if rank == "1" and what == "error":
        raise RuntimeError("rank 1 was told to fail")
    if rank == "1" and what == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if what != "well":
        time.sleep(600)  # the others wait, as in a collective


if __name__ == "__main__":
    main()
