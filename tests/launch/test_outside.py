"""Who we are when torchrun or srun started us, and agreement over a real store."""

import os
from typing import Any

import pytest

from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.outside import OutsideRank, agree, outside_rank
from tests.helpers import free_port, run_ranks

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "node0", "MASTER_PORT": "29500"}
SRUN = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_NUM_NODES": "2", "SLURM_JOB_ID": "17"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        (TORCHRUN, OutsideRank(5, 8, 4)),
        (SRUN, OutsideRank(3, 8, 4)),
        ({"SLURM_JOB_ID": "17", "SLURM_NTASKS": "8"}, None),  # the batch script itself, or a shell in an allocation
        ({**SRUN, "SLURM_STEP_NUM_TASKS": "1"}, None),  # srun with one task: start our own ranks
        ({"RANK": "0"}, None),  # a leftover variable
    ],
)
def test_who_we_are(environ: dict[str, str], expected: OutsideRank | None) -> None:
    assert outside_rank(environ) == expected


@pytest.mark.parametrize(
    ("environ", "variable", "value", "span"),
    [
        (TORCHRUN, "RANK", "zero", "0 to 7"),
        (TORCHRUN, "RANK", "8", "0 to 7"),
        (TORCHRUN, "RANK", "-1", "0 to 7"),
        (TORCHRUN, "WORLD_SIZE", "", "a whole number of at least 1"),
        (TORCHRUN, "WORLD_SIZE", "0", "a whole number of at least 1"),
        (TORCHRUN, "WORLD_SIZE", "8.0", "a whole number of at least 1"),
        (TORCHRUN, "LOCAL_WORLD_SIZE", "0", "1 to 8"),
        (TORCHRUN, "LOCAL_WORLD_SIZE", "9", "1 to 8"),
        ({**TORCHRUN, "WORLD_SIZE": "1"}, "RANK", "1", "0"),
        (TORCHRUN, "MASTER_PORT", "x", "1 to 65535"),
        (TORCHRUN, "MASTER_PORT", "70000", "1 to 65535"),
        (SRUN, "SLURM_PROCID", "first", "0 to 7"),
        (SRUN, "SLURM_PROCID", "8", "0 to 7"),
        (SRUN, "SLURM_STEP_NUM_TASKS", "many", "a whole number of at least 1"),
        (SRUN, "SLURM_STEP_NUM_TASKS", "", "a whole number of at least 1"),
        (SRUN, "SLURM_STEP_NUM_NODES", "0", "1 to 8"),
        (SRUN, "SLURM_STEP_NUM_NODES", "2(x2)", "1 to 8"),
    ],
)
def test_rubbish_in_the_environment_is_named(environ: dict[str, str], variable: str, value: str, span: str) -> None:
    with pytest.raises(UserError) as caught:
        outside_rank({**environ, variable: value})
    assert str(caught.value).startswith(f"The environment says {variable}={value!r}, which must be {span} ")


def test_nodes() -> None:
    assert OutsideRank(5, 8, 4).nodes == 2


def agrees(rank: int, world_size: int, port: int, wrong: bool) -> Any:
    os.environ["MASTER_PORT"] = str(port)

    def decide() -> str:
        if wrong:
            raise UserError("as the test wants")
        return f"decided by {rank}"

    try:
        return agree(OutsideRank(rank, world_size, world_size), decide)
    except UserError as error:
        return f"refused: {error}"


def test_rank_0_decides_for_all() -> None:
    assert run_ranks(agrees, 3, free_port(), False) == ["decided by 0"] * 3


def test_rank_0s_refusal_reaches_all() -> None:
    assert run_ranks(agrees, 3, free_port(), True) == ["refused: as the test wants"] * 3
