"""The hook against DDP without one (bit for bit) and against one process on the joined batch."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import profile

from lightning_fastnet.comm.hook import AllReduceState, all_reduce_hook
from tests.helpers import run_ranks

SMALL_BUCKET_MB = 0.002  # several buckets even for this network


def network(dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(10, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 3)).to(dtype)


def train(model: nn.Module, rank: int, world_size: int, dtype: torch.dtype) -> np.ndarray[Any, Any]:
    """Four steps on this rank's rows of a batch of 12; the weights."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for step in range(4):
        generator = torch.Generator().manual_seed(step)
        inputs, targets = torch.randn(12, 10, generator=generator).to(dtype), torch.randint(3, (12,), generator=generator)
        rows = slice(rank * 12 // world_size, (rank + 1) * 12 // world_size)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[rows]), targets[rows]).backward()
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).numpy()


def on_a_rank(rank: int, world_size: int, hooked: bool, dtype: torch.dtype) -> np.ndarray[Any, Any]:
    model = DistributedDataParallel(network(dtype), bucket_cap_mb=SMALL_BUCKET_MB)
    if hooked:
        model.register_comm_hook(AllReduceState(), all_reduce_hook)
    return train(model, rank, world_size, dtype)


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_is_ddp_bit_for_bit(world_size: int) -> None:
    ours = run_ranks(on_a_rank, world_size, True, torch.float32)
    theirs = run_ranks(on_a_rank, world_size, False, torch.float32)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine, other)
    for rank in range(1, world_size):
        np.testing.assert_array_equal(ours[0], ours[rank])


@pytest.mark.parametrize("world_size", [2, 3])
def test_equals_one_process_on_the_joined_batch(world_size: int) -> None:
    together = run_ranks(on_a_rank, world_size, True, torch.float64)
    alone = train(network(torch.float64), 0, 1, torch.float64)
    np.testing.assert_allclose(together[0], alone, rtol=1e-12, atol=1e-14)


def averages_over_its_own_group(rank: int, world_size: int) -> float:
    """Ranks 0 and 1 are one group, 2 another."""
    import torch.distributed as dist

    groups = [dist.new_group([0, 1]), dist.new_group([2])]
    group = groups[rank // 2]
    model = DistributedDataParallel(nn.Linear(1, 1, bias=False), process_group=group)
    model.register_comm_hook(AllReduceState(group), all_reduce_hook)
    model(torch.full((1, 1), float(rank + 1))).sum().backward()
    return float(model.module.weight.grad)


def test_averages_over_the_group_it_is_given() -> None:
    assert run_ranks(averages_over_its_own_group, 3) == [1.5, 1.5, 3.0]


def ranges_in_a_profile(rank: int, world_size: int) -> int:
    model = DistributedDataParallel(network(torch.float32), bucket_cap_mb=SMALL_BUCKET_MB)
    model.register_comm_hook(AllReduceState(), all_reduce_hook)
    train(model, rank, world_size, torch.float32)  # the buckets are rebuilt after the first step
    with profile() as recorded:
        model(torch.ones(2, 10)).sum().backward()
    return sum(event.count for event in recorded.key_averages() if event.key == "fastnet::all_reduce")


@pytest.mark.filterwarnings("ignore")  # the profiler's notes on a machine without a GPU
def test_each_bucket_shows_in_the_profiler() -> None:
    counts = run_ranks(ranges_in_a_profile, 2)
    assert counts[0] == counts[1] > 1
