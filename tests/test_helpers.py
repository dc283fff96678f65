"""run_ranks itself: the first error is shown, a hang ends, nobody is left."""

import os
import time

import pytest

from tests.helpers import run_ranks


def well(rank: int, world_size: int) -> tuple[int, int]:
    return rank, world_size


def fails_on_1(rank: int, world_size: int) -> None:
    if rank == 1:
        raise ValueError("as the test wants")
    time.sleep(600)


def dies_on_0(rank: int, world_size: int) -> None:
    if rank == 0:
        os._exit(3)
    time.sleep(600)


def hangs(rank: int, world_size: int) -> None:
    time.sleep(600)


def test_results_come_by_rank() -> None:
    assert run_ranks(well, 3) == [(0, 3), (1, 3), (2, 3)]


def test_the_first_error_is_shown() -> None:
    with pytest.raises(RuntimeError, match=r"rank 1 failed:[\s\S]*ValueError: as the test wants"):
        run_ranks(fails_on_1, 2)


def test_a_dead_rank_is_named() -> None:
    with pytest.raises(RuntimeError, match="rank 0 died with exit status 3"):
        run_ranks(dies_on_0, 2)


def test_a_hang_ends() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"ranks \[0, 1\]"):
        run_ranks(hangs, 2, timeout=15.0)
    assert time.monotonic() - began < 60
