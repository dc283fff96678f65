"""A run that stops after any batch goes on with the next one: both loaders, any number of ranks, and under Lightning's Trainer."""

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor

from lightning_fastnet.data.class_folder import ClassFolder
from lightning_fastnet.data.datamodule import DALIDataModule, FolderDataModule
from lightning_fastnet.data.torch_folder import TorchDataModule
from lightning_fastnet.errors import UserError

pytest.importorskip("nvidia.dali")
pytestmark = [
    # Python 3.12 and 3.13 warn of every fork of a process with threads; the workers of these tests only read pictures
    pytest.mark.filterwarnings("ignore:.*use of fork\\(\\) may lead to deadlocks:DeprecationWarning"),
    # a resumed run here writes its checkpoints elsewhere, or none
    pytest.mark.filterwarnings("ignore:The dirpath has changed"),
    pytest.mark.filterwarnings("ignore:.*callbacks used to create the checkpoint need to be provided"),
]

BATCHES = 5  # of 8 in an epoch of 44 pictures
KINDS = [
    pytest.param(DALIDataModule, 1, id="DALI"),
    pytest.param(TorchDataModule, 0, id="torch"),
    pytest.param(TorchDataModule, 2, id="torch, 2 workers"),
]


class OneRank(Trainer):
    """A Trainer that says it is one of several."""

    def __init__(self, rank: int, world_size: int) -> None:
        super().__init__(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False)
        self._rank, self._world_size = rank, world_size

    @property
    def global_rank(self) -> int:
        return self._rank

    @property
    def world_size(self) -> int:
        return self._world_size


@pytest.fixture(scope="module")
def root(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Links to 44 digits to train on and 10 to evaluate."""
    root = tmp_path_factory.mktemp("few")
    for split, step, count in (("train", 90, 44), ("val", 100, 10)):
        for path in ClassFolder.read(digits / split).paths[::step][:count]:
            link = root / Path(path).relative_to(digits)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    return root


def module_of(kind: type[FolderDataModule], root: Path, workers: int = 1, **settings: Any) -> FolderDataModule:
    defaults = {"image_size": 28, "channels": 1, "mean": [0.0], "std": [1.0], "batch_size_per_device": 8, "num_threads": workers}
    return kind(root, **defaults | {"augment": "jitter", "seed": 5} | settings)


def loader_of(kind: type[FolderDataModule], root: Path, workers: int, rank: int = 0, world_size: int = 1, **settings: Any) -> Any:
    module = module_of(kind, root, workers, batch_size_per_device=8 // world_size, **settings)
    module.trainer = OneRank(rank, world_size)
    return module.train_dataloader()


def epoch_of(loader: Any, epoch: int, first: int = 0) -> list[Tensor]:
    """An epoch's pictures, batch by batch; its length does not depend on where it began."""
    loader.batch_sampler.set_epoch(epoch)
    batches = [pictures for pictures, _ in loader]
    assert len(loader) == BATCHES == len(batches) + first
    return batches


def stopped(loader: Any, epoch: int, after: int, tmp_path: Path) -> dict[str, Any]:
    """The state of a loader that gave ``after`` batches, through a checkpoint's file."""
    loader.batch_sampler.set_epoch(epoch)
    batches = iter(loader)
    for _ in range(after):
        next(batches)
    torch.save(loader.state_dict(), tmp_path / "state")
    state: dict[str, Any] = torch.load(tmp_path / "state", weights_only=True)
    return state


def same(ours: list[Tensor], expected: list[Tensor]) -> bool:
    return len(ours) == len(expected) and all(torch.equal(one, other) for one, other in zip(ours, expected, strict=True))


@pytest.mark.parametrize(("kind", "workers"), KINDS)
def test_the_rest_of_an_epoch_and_the_next_are_the_uninterrupted_ones(root, tmp_path, kind, workers):
    uninterrupted = loader_of(kind, root, workers)
    epochs = [epoch_of(uninterrupted, epoch) for epoch in range(4)]
    for after in range(1, BATCHES):
        state = stopped(loader_of(kind, root, workers), 2, after, tmp_path)
        assert (state["epoch"], state["batches"]) == (2, after)
        resumed = loader_of(kind, root, workers)
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        assert same(epoch_of(resumed, 2, first=after), epochs[2][after:])
        assert resumed.state_dict()["batches"] == BATCHES
        assert same(epoch_of(resumed, 3), epochs[3])
        assert same(epoch_of(resumed, 2), epochs[2])  # it applies once


@pytest.mark.parametrize(("kind", "workers"), KINDS)
@pytest.mark.parametrize("after", [0, BATCHES])
def test_an_epoch_not_begun_or_over_leaves_whole_epochs(root, tmp_path, kind, workers, after):
    resumed = loader_of(kind, root, workers)
    resumed.load_state_dict(stopped(loader_of(kind, root, workers), 1, after, tmp_path))
    assert len(epoch_of(resumed, 1)) == len(epoch_of(resumed, 2)) == BATCHES


@pytest.mark.parametrize(("kind", "workers"), KINDS[:2])
def test_an_iterator_made_before_the_state_is_loaded_and_the_epoch_is_set_obeys_both(root, tmp_path, kind, workers):
    """Lightning makes its iterators that early."""
    state = stopped(loader_of(kind, root, workers), 3, 2, tmp_path)
    resumed = loader_of(kind, root, workers)
    early = iter(resumed)
    resumed.load_state_dict(state)
    resumed.batch_sampler.set_epoch(3)
    assert same([pictures for pictures, _ in early], epoch_of(loader_of(kind, root, workers), 3)[2:])


@pytest.mark.parametrize(("kind", "workers"), KINDS[:2])
def test_another_epoch_begins_at_its_beginning(root, tmp_path, kind, workers):
    resumed = loader_of(kind, root, workers)
    resumed.load_state_dict(stopped(loader_of(kind, root, workers), 3, 2, tmp_path))
    assert same(epoch_of(resumed, 1), epoch_of(loader_of(kind, root, workers), 1))
    assert resumed.state_dict()["epoch"] == 1


@pytest.mark.parametrize(("kind", "workers"), KINDS[:2])
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 4)])
def test_another_number_of_ranks_with_the_same_global_batch_goes_on_too(root, tmp_path, kind, workers, before, after):
    expected = epoch_of(loader_of(kind, root, workers), 1)[3:]
    states = [stopped(loader_of(kind, root, workers, rank, before), 1, 3, tmp_path) for rank in range(before)]
    assert states == [states[0]] * before
    parts = []
    for rank in range(after):
        resumed = loader_of(kind, root, workers, rank, after)
        resumed.load_state_dict(states[0])
        parts.append(epoch_of(resumed, 1, first=3))
    assert same([torch.cat(batch) for batch in zip(*parts, strict=True)], expected)


@pytest.mark.parametrize(("kind", "workers"), KINDS[:2])
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"global_batch_size": 16}, "global_batch_size=16, this run has 8"),
        ({"num_samples": 45}, "num_samples=45, this run has 44"),
        ({"seed": 6}, "seed=6, this run has 5"),
        ({"sampling": "fixed_cycle"}, "sampling=fixed_cycle, this run has shuffle"),
    ],
)
def test_other_batches_are_refused_amid_an_epoch_and_not_at_its_end(root, tmp_path, kind, workers, changed, words):
    loader = loader_of(kind, root, workers)
    state = stopped(loader, 1, 1, tmp_path) | changed
    with pytest.raises(UserError, match=f"saved amid an epoch with {words}: set it back, or resume from a checkpoint of an epoch's end"):
        loader.load_state_dict(state)
    loader.load_state_dict(state | {"batches": BATCHES})


def test_a_state_of_another_loader_is_refused(root):
    with pytest.raises(UserError, match="lacks 'batches': another loader saved it"):
        loader_of(DALIDataModule, root, 1).load_state_dict({"epoch": 1})


# ---- under Lightning -----------------------------------------------------------------------------------------------------------------


class Seen(LightningModule):
    """Keeps the batches it is shown; asks for the run's length early, as our ImageClassifier does."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.pictures: list[Tensor] = []

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        self.pictures.append(batch[0])
        return self.weight.sum()

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        pass

    def configure_optimizers(self) -> torch.optim.Optimizer:
        assert self.trainer.estimated_stepping_batches == 2 * BATCHES
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(module: FolderDataModule, folder: Path, ckpt_path: Path | None = None, **settings: Any) -> list[Tensor]:
    seen = Seen()
    checkpoints = ModelCheckpoint(folder, filename="{step}", every_n_train_steps=1, save_top_k=-1)
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    trainer = Trainer(accelerator="cpu", devices=1, max_epochs=2, callbacks=[checkpoints], **quiet | settings)
    trainer.fit(seen, module, ckpt_path=ckpt_path, weights_only=True)
    return seen.pictures


@pytest.mark.parametrize(("kind", "workers"), KINDS[:2])
@pytest.mark.parametrize("step", [1, 4, 5, 7, 9])
def test_a_resumed_fit_sees_exactly_the_remaining_batches(root, tmp_path, kind, workers, step):
    whole = fit(module_of(kind, root, workers), tmp_path)
    assert len(whole) == 2 * BATCHES
    rest = fit(module_of(kind, root, workers), tmp_path / "resumed", tmp_path / f"step={step}.ckpt")
    assert same(rest, whole[step:])


def test_a_test_of_a_checkpoint_resumes_nothing(root, tmp_path):
    fit(module_of(DALIDataModule, root), tmp_path)
    module = module_of(DALIDataModule, root)
    trainer = Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.validate(Seen(), module, ckpt_path=tmp_path / "step=2.ckpt", verbose=False, weights_only=True)
    assert same(fit(module, tmp_path / "other"), fit(module_of(DALIDataModule, root), tmp_path / "third"))


def test_a_module_without_a_training_loader_has_no_position(root):
    assert module_of(DALIDataModule, root).state_dict() == {}
