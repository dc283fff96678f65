"""Ranks that someone else started (torchrun, srun): who we are among them, and how to agree on one value."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from lightning_fastnet.errors import UserError

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
    """Reads torchrun's or srun's environment; None: nobody started us as one rank of many.

    Raises:
        UserError: one of the variables holds what no launcher writes.
    """
    if {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= environ.keys():
        _whole(environ, "MASTER_PORT", 1, 65535)
        world_size = _whole(environ, "WORLD_SIZE", 1)
        return OutsideRank(_whole(environ, "RANK", 0, world_size - 1), world_size, _whole(environ, "LOCAL_WORLD_SIZE", 1, world_size))
    # SLURM_STEP_ID: inside srun, not merely in the batch script or an interactive shell of an allocation
    if "SLURM_STEP_ID" in environ and "SLURM_PROCID" in environ and environ.get("SLURM_STEP_NUM_TASKS", "1") != "1":
        world_size = _whole(environ, "SLURM_STEP_NUM_TASKS", 1)
        nodes = _whole(environ, "SLURM_STEP_NUM_NODES", 1, world_size) if "SLURM_STEP_NUM_NODES" in environ else 1
        return OutsideRank(_whole(environ, "SLURM_PROCID", 0, world_size - 1), world_size, world_size // nodes)
    return None


def _whole(environ: Mapping[str, str], variable: str, least: int, most: int | None = None) -> int:
    """A launcher never sets these wrong; a shell that exported one, or a job script that computed it, does."""
    value = environ[variable]
    number = int(value) if value.isascii() and value.isdecimal() else -1
    if number < least or (most is not None and number > most):
        span = f"a whole number of at least {least}" if most is None else f"{least}" if most == least else f"{least} to {most}"
        raise UserError(
            f"The environment says {variable}={value!r}, which must be {span} when ranks are started from outside: "
            f"start them with torchrun or srun, or unset {variable} to start them here."
        )
    return number


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
        raise UserError(answer[1:])
    return answer[1:]


_kept: list[object] = []  # rank 0's store must outlive the call: the others may not have read it yet
