"""Ranks that someone else started (torchrun, srun): who we are among them, and how to agree on one value."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

AGREE_TIMEOUT = timedelta(minutes=5)  # ranks of a large job reach this line minutes apart: imports from one file system


@dataclass(frozen=True)
class OutsideRank:
    """This process's place in a job that was started from outside."""

    rank: int
    world_size: int
    local_world_size: int

    @property
    def nodes(self) -> int:
        return self.world_size // self.local_world_size


def outside_rank(environ: Mapping[str, str] = os.environ) -> OutsideRank | None:
    """Reads torchrun's or srun's environment; None: nobody started us as one rank of many."""
    if {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= environ.keys():
        return OutsideRank(int(environ["RANK"]), int(environ["WORLD_SIZE"]), int(environ["LOCAL_WORLD_SIZE"]))
    # SLURM_STEP_ID: inside srun, not merely in the batch script or an interactive shell of an allocation
    if "SLURM_STEP_ID" in environ and "SLURM_PROCID" in environ and environ.get("SLURM_STEP_NUM_TASKS", "1") != "1":
        world_size = int(environ["SLURM_STEP_NUM_TASKS"])
        return OutsideRank(int(environ["SLURM_PROCID"]), world_size, world_size // int(environ.get("SLURM_STEP_NUM_NODES", "1")))
    return None


def agree(place: OutsideRank, decide: Callable[[], str]) -> str:
    """Rank 0 decides a string, all ranks return it. Called once, before Lightning sets up its process group on the same address."""
    import torch.distributed as dist
    from lightning.pytorch.plugins.environments import SLURMEnvironment

    if "MASTER_ADDR" not in os.environ:
        slurm = SLURMEnvironment()
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = slurm.main_address, str(slurm.main_port)
    # torchrun's agent keeps a store on that port already; under srun rank 0 opens it, shared with the process group that comes later
    agent_has_it = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = dist.TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=place.rank == 0 and not agent_has_it,
        timeout=AGREE_TIMEOUT,
        wait_for_workers=False,
        multi_tenant=True,
    )
    _kept.append(store)
    key = "lightning_fastnet/agree"
    if place.rank == 0:
        try:
            store.set(key, "+" + decide())
        except Exception as error:
            store.set(key, f"-{error}")
            raise
    answer = store.get(key).decode()
    if answer.startswith("-"):
        from lightning_fastnet.errors import UserError

        raise UserError(answer[1:])
    return answer[1:]


_kept: list[object] = []  # rank 0's store must outlive the call: the others may not have read it yet
