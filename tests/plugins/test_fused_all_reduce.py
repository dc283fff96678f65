"""The strategy under a real Trainer on real gloo ranks, against Lightning's own DDP."""

import sys
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from lightning_fastnet.comm.hook import AllReduceState, all_reduce_hook
from lightning_fastnet.data.order import BatchOrder
from lightning_fastnet.errors import UserError
from lightning_fastnet.plugins import fused_all_reduce
from lightning_fastnet.plugins.fused_all_reduce import FusedAllReduceStrategy
from tests.helpers import run_ranks


class Rows(Dataset[tuple[Tensor, Tensor]]):
    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(index)
        return torch.randn(6, generator=generator, dtype=torch.float64), torch.randint(3, (), generator=generator)


class Module(pl.LightningModule):
    def __init__(self, manual: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 3)).double()
        self.automatic_optimization = not manual

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        loss = nn.functional.cross_entropy(self.network(batch[0]), batch[1])
        if not self.automatic_optimization:
            optimizer = self.optimizers()
            assert isinstance(optimizer, torch.optim.Optimizer | pl.core.optimizer.LightningOptimizer)
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.2, momentum=0.9)


def fit(rank: int, world_size: int, strategy: Any, manual: bool = False, accumulate: int = 1) -> np.ndarray[Any, Any]:
    """Two epochs over 24 rows in global batches of 12, each rank on its part of them."""
    module = Module(manual)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=world_size,
        strategy=strategy,
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accumulate_grad_batches=accumulate,
        use_distributed_sampler=False,
    )
    order = BatchOrder(24, 12 // world_size, rank=rank, world_size=world_size, sampling="sequential")
    trainer.fit(module, DataLoader(Rows(), batch_sampler=order))
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()]).numpy()


def on_a_rank(rank: int, world_size: int, ours: bool, ddp: dict[str, Any], options: dict[str, Any]) -> tuple[Any, int]:
    calls = 0

    def counted(state: AllReduceState, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        nonlocal calls
        calls += 1
        return all_reduce_hook(state, bucket)

    fused_all_reduce.all_reduce_hook = counted
    strategy = FusedAllReduceStrategy(**ddp) if ours else DDPStrategy(**ddp)
    try:
        return fit(rank, world_size, strategy, **options), calls
    finally:
        fused_all_reduce.all_reduce_hook = all_reduce_hook


pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers.*")


@pytest.mark.parametrize(
    ("ddp", "options"),
    [
        ({}, {}),
        ({"gradient_as_bucket_view": True, "static_graph": True}, {}),
        ({"find_unused_parameters": True}, {}),
        ({}, {"manual": True}),
        ({}, {"accumulate": 2}),
    ],
    ids=["plain", "static_graph", "find_unused", "manual", "accumulate"],
)
def test_trains_as_lightnings_ddp_bit_for_bit(ddp: dict[str, Any], options: dict[str, Any]) -> None:
    ours = run_ranks(on_a_rank, 2, True, ddp, options)
    theirs = run_ranks(on_a_rank, 2, False, ddp, options)
    np.testing.assert_array_equal(ours[0][0], theirs[0][0])
    np.testing.assert_array_equal(ours[0][0], ours[1][0])
    steps = 4 // options.get("accumulate", 1)
    assert ours[0][1] == steps, "one bucket a step: the hook must run (Lightning drops it off CUDA), once an accumulation group"
    assert theirs[0][1] == 0


def test_two_ranks_equal_one_process() -> None:
    together = run_ranks(on_a_rank, 2, True, {}, {})
    alone = fit(0, 1, "auto")
    np.testing.assert_allclose(together[0][0], alone, rtol=1e-12, atol=1e-14)


def buckets(rank: int, world_size: int) -> int:
    _, calls = on_a_rank(rank, world_size, True, {"bucket_cap_mb": 0.0005}, {})
    return calls


def test_the_bucket_cap_reaches_the_reducer() -> None:
    """4 steps: one bucket in the first, before DDP's rebuild; with a small cap more than one in the others."""
    assert run_ranks(buckets, 2)[0] > 4


@pytest.mark.parametrize("name", ["ddp_comm_hook", "ddp_comm_state", "ddp_comm_wrapper"])
def test_refuses_a_second_hook(name: str) -> None:
    with pytest.raises(UserError, match=name):
        FusedAllReduceStrategy(**{name: object()})


def test_refuses_a_cap_of_nothing() -> None:
    with pytest.raises(UserError, match="bucket_cap_mb=0"):
        FusedAllReduceStrategy(bucket_cap_mb=0)


def test_its_repr_explains_the_twin_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pytorch_lightning", raising=False)
    assert repr(FusedAllReduceStrategy()) == "<FusedAllReduceStrategy>"
    monkeypatch.setitem(sys.modules, "pytorch_lightning", pl)
    assert "import lightning.pytorch instead" in repr(FusedAllReduceStrategy())
