"""The callback against LARS and its curve written by hand in the module, bit for bit, on one rank and on two."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.plugins import CheckpointIO, Precision, TorchCheckpointIO
from torch import nn
from torch.utils.data import DataLoader

from examples.plain_module import PlainModule, pictures
from lightning_fastnet import LARS, FusedAllReduceStrategy, LARSWarmup, StepProfile
from lightning_fastnet.data.order import BatchOrder
from lightning_fastnet.errors import UserError
from lightning_fastnet.optim.param_groups import param_groups
from lightning_fastnet.optim.schedules import AppliedStepsLR, warmup_then_decay
from tests.helpers import run_ranks

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:.*{words}.*")
    for words in ("many workers", "logging interval", "no `val_dataloader`", "should_stop")
]
EPOCHS, STEPS = 4, 4
WARMUP = {"peak_lr": 2.0, "warmup_epochs": 1, "trust_coefficient": 0.02}


class ByHand(PlainModule):
    """What the callback should come to. One group in the order of the module, as SGD's: the sum over ranks is the same either way."""

    def configure_optimizers(self) -> Any:
        optimizer = LARS(param_groups(self, weight_decay=1e-4), lr=2.0, trust_coefficient=0.02)
        curve = warmup_then_decay(optimizer, warmup_epochs=1, total_epochs=EPOCHS, steps_per_epoch=STEPS, decay="poly2")
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": curve, "interval": "step"}}


class Returns(PlainModule):
    """A module whose ``configure_optimizers`` gives what it is told."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make

    def configure_optimizers(self) -> Any:
        return self.make(self)


def sgd(module: nn.Module, **settings: Any) -> torch.optim.SGD:
    return torch.optim.SGD(module.parameters(), **{"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4, **settings})


class Values(Callback):
    """The rate of every step."""

    def __init__(self) -> None:
        self.rates: list[float] = []

    def on_train_batch_start(self, trainer: Trainer, *_: Any) -> None:
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])


class Swaps(Precision):
    """As a plugin with master weights: the optimizer gets other tensors than the module has."""

    def connect(self, model: nn.Module, optimizers: list[torch.optim.Optimizer], lr_schedulers: list[Any]) -> Any:
        self.masters = {}
        for group in optimizers[0].param_groups:
            self.masters |= {parameter: nn.Parameter(parameter.detach().clone()) for parameter in group["params"]}
            group["params"] = [self.masters[parameter] for parameter in group["params"]]
        return model, optimizers, lr_schedulers

    def optimizer_step(self, optimizer: Any, model: Any, closure: Any, **kwargs: Any) -> Any:
        for parameter in self.masters:
            parameter.grad = None  # the optimizer's zero_grad does not know them
        loss = closure()
        for parameter, master in self.masters.items():
            master.grad = parameter.grad
        optimizer.step()
        with torch.no_grad():
            for parameter, master in self.masters.items():
                parameter.copy_(master)
        return loss


def fit(module: LightningModule, callbacks: list[Callback], ranks: int = 1, ckpt_path: Path | None = None, **more: Any) -> Trainer:
    torch.manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        for layer in module.modules():
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()
    settings = {"max_epochs": EPOCHS, "logger": False, "enable_checkpointing": False, **more}
    trainer = Trainer(
        accelerator="cpu",
        devices=ranks,
        callbacks=callbacks,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        **settings,
    )
    rank = trainer.strategy.global_rank if ranks > 1 else 0
    order = BatchOrder(64, 16 // ranks, rank=rank, world_size=ranks, sampling="sequential")
    loader = DataLoader(pictures(64, seed=0), batch_sampler=order)
    trainer.fit(module, loader, ckpt_path=ckpt_path, weights_only=True if ckpt_path else None)
    return trainer


def assert_same_bits(one: nn.Module, other: nn.Module) -> None:
    for (name, a), b in zip(one.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_is_lars_written_by_hand() -> None:
    ours, theirs, seen, wanted = PlainModule(), ByHand(), Values(), Values()
    trainer = fit(ours, [LARSWarmup(**WARMUP), seen])
    fit(theirs, [wanted])
    assert_same_bits(ours, theirs)
    assert seen.rates == wanted.rates
    assert len(set(seen.rates)) == EPOCHS * STEPS
    assert isinstance(trainer.optimizers[0], LARS)
    assert "configure_optimizers" not in vars(ours), "the module is as it was"


def test_resumed_it_is_the_run_that_was_never_stopped(tmp_path: Path) -> None:
    whole = ByHand()
    fit(whole, [])

    class Stop(Callback):
        def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
            if trainer.current_epoch == 1:
                trainer.save_checkpoint(tmp_path / "half.ckpt")
                trainer.should_stop = True

    fit(PlainModule(), [LARSWarmup(**WARMUP), Stop()])
    resumed, seen = PlainModule(), Values()
    fit(resumed, [LARSWarmup(**WARMUP), seen], ckpt_path=tmp_path / "half.ckpt")
    assert_same_bits(resumed, whole)
    assert len(seen.rates) == 2 * STEPS
    assert seen.rates == sorted(seen.rates, reverse=True)
    assert seen.rates[0] > seen.rates[-1], "the schedule still acts"


def on_a_rank(rank: int, world_size: int) -> Any:
    module = PlainModule()
    module.network[1] = nn.Identity()  # batch norm's statistics are a rank's own
    module.double()
    fit_in_double(module, world_size)
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()]).numpy()


def fit_in_double(module: PlainModule, ranks: int) -> None:
    strategy = FusedAllReduceStrategy() if ranks > 1 else "auto"
    fit(module, [LARSWarmup(**WARMUP), StepProfile(print_summary=False)], ranks, strategy=strategy, precision="64-true")


def test_two_ranks_equal_one() -> None:
    together = run_ranks(on_a_rank, 2)
    np.testing.assert_array_equal(together[0], together[1])
    np.testing.assert_allclose(together[0], on_a_rank(0, 1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
def test_beside_a_precision_plugin_that_exchanges_the_parameters(reverse: bool) -> None:
    class OwnIO(TorchCheckpointIO):
        pass

    plugins: list[Precision | CheckpointIO] = [Swaps(), OwnIO()]
    callbacks: list[Callback] = [LARSWarmup(**WARMUP), Values(), StepProfile(print_summary=False)]
    ours, theirs = PlainModule(), ByHand()
    fit(ours, callbacks[:: -1 if reverse else 1], plugins=plugins[:: -1 if reverse else 1])
    fit(theirs, [])
    assert_same_bits(ours, theirs)


def test_groups_keep_weight_decay_momentum_and_their_proportions() -> None:
    def make(module: PlainModule) -> torch.optim.SGD:
        conv, linear = module.network[0], module.network[5]
        groups = [
            {"params": conv.parameters(), "lr": 0.3, "weight_decay": 0.01},
            {"params": linear.parameters(), "momentum": 0.5, "nesterov": True},
        ]
        return torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=1e-4)

    trainer = fit(Returns(make), [LARSWarmup(peak_lr=2.0, warmup_epochs=0, decay="constant")])
    first, second = trainer.optimizers[0].param_groups
    assert (first["lr"], first["weight_decay"], first["momentum"], first["nesterov"]) == (pytest.approx(6.0), 0.01, 0.9, False)
    assert (second["lr"], second["weight_decay"], second["momentum"], second["nesterov"]) == (2.0, 1e-4, 0.5, True)
    assert first["excluded"] == second["excluded"] == [False, True]
    assert first["param_names"] == ["network.0.weight", "network.0.bias"]


def with_scheduler(module: nn.Module) -> Any:
    optimizer = sgd(module)
    return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.LinearLR(optimizer, 0.5)}


@pytest.mark.parametrize(
    "make",
    [
        with_scheduler,
        lambda module: ([with_scheduler(module)["optimizer"]], [with_scheduler(module)["lr_scheduler"]]),
        lambda module: [with_scheduler(module)],
    ],
)
def test_a_scheduler_of_the_modules_own_is_refused_or_replaced(make: Any) -> None:
    with pytest.raises(UserError, match="brings a learning-rate scheduler of its own"):
        fit(Returns(make), [LARSWarmup(**WARMUP)])
    ours, theirs = Returns(make), ByHand()
    trainer = fit(ours, [LARSWarmup(**WARMUP, replace_scheduler=True)])
    fit(theirs, [])
    assert_same_bits(ours, theirs)
    assert [type(config.scheduler) for config in trainer.lr_scheduler_configs] == [AppliedStepsLR]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda module: torch.optim.Adam(module.parameters()), "the module returns a Adam"),
        (lambda module: LARS(module.parameters(), lr=1.0), "the module returns a LARS"),
        (lambda module: [sgd(module), sgd(module)], "the module returns 2"),
        (lambda module: None, "the module returns no optimizer"),
        (lambda module: {}, "the module returns no optimizer"),
        (lambda module: sgd(module, dampening=0.5), "dampening=0.5, which LARS does not have"),
        (lambda module: sgd(module, maximize=True), "maximize=True, which LARS does not have"),
    ],
)
def test_refuses_what_it_cannot_turn_into_lars(make: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        fit(Returns(make), [LARSWarmup(**WARMUP)])


def test_refuses_manual_optimization_and_warns_of_a_second_hand_on_the_rate() -> None:
    manual = PlainModule()
    manual.automatic_optimization = False
    with pytest.raises(UserError, match="needs automatic optimization"):
        fit(manual, [LARSWarmup(**WARMUP)])

    class WarmsUp(PlainModule):
        def optimizer_step(self, *arguments: Any, **keywords: Any) -> None:
            super().optimizer_step(*arguments, **keywords)

    with pytest.warns(UserWarning, match="overrides optimizer_step"):
        fit(WarmsUp(), [LARSWarmup(**WARMUP)])


def test_fit_twice_wraps_once_each_time() -> None:
    module, callback = PlainModule(), LARSWarmup(**WARMUP)
    for _ in range(2):
        assert isinstance(fit(module, [callback]).optimizers[0], LARS)
    assert isinstance(module.configure_optimizers(), torch.optim.SGD)


def test_settings_go_to_lars_and_to_the_curve() -> None:
    seen = Values()
    trainer = fit(PlainModule(), [LARSWarmup(2.0, 1, "cosine", warmup_start=0.5, end_lr=0.25, eps=1e-6, clip=True), seen])
    assert (trainer.optimizers[0].defaults["eps"], trainer.optimizers[0].defaults["clip"]) == (1e-6, True)
    assert seen.rates[:STEPS] == pytest.approx([0.5 + 1.5 * step / STEPS for step in range(STEPS)])
    assert seen.rates[-1] == pytest.approx(0.25, rel=0.15)
