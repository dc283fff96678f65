"""DALILoader gives BatchOrder's order and the pictures PIL reads, whatever was done with the epoch before."""

import numpy as np
import pytest
import torch
from PIL import Image

from lightning_fastnet.data.class_folder import ClassFolder
from lightning_fastnet.data.order import BatchOrder, augmentation
from lightning_fastnet.errors import UserError

pytest.importorskip("nvidia.dali")

from nvidia.dali import fn, types

from lightning_fastnet.data.loader import DALILoader


def as_read(path, label, *uniform):
    """The pictures as they are, with whatever else comes in."""
    return fn.decoders.image(fn.io.file.read(path), output_type=types.GRAY), label, *uniform


@pytest.fixture(scope="module")
def folder(digits) -> ClassFolder:
    """23 digits of all classes."""
    whole = ClassFolder.read(digits / "val")
    return ClassFolder(whole.paths[::44], whole.labels[::44], whole.classes)


def read_by_pil(folder: ClassFolder, batch: list[int]) -> tuple[np.ndarray, list[int]]:
    return np.stack([np.asarray(Image.open(folder.paths[index])) for index in batch]), folder.labels[batch].tolist()


def numbers_of(folder: ClassFolder, batches) -> list[list[int]]:
    """Which samples the batches hold, told by their pixels."""
    known = {np.asarray(Image.open(path)).tobytes(): number for number, path in enumerate(folder.paths)}
    return [[known[picture.numpy().tobytes()] for picture in batch[0]] for batch in batches]


def order_of(epoch: int, *arguments, **settings) -> list[list[int]]:
    order = BatchOrder(*arguments, **settings)
    order.set_epoch(epoch)
    return list(order)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("last", ["drop", "exact"])
def test_batches_are_what_pil_reads_in_the_order_of_batchorder(folder, last, threads):
    loader = DALILoader(as_read, 5, samples=folder, seed=3, last=last, num_threads=threads)
    for epoch in range(3):
        loader.batch_sampler.set_epoch(epoch)
        batches = list(loader)  # kept until the end: no batch lies in a buffer that DALI uses again
        expected = order_of(epoch, 23, 5, seed=3, last=last)
        assert len(loader) == len(batches) == len(expected) == {"drop": 4, "exact": 5}[last]
        for (pictures, labels), numbers in zip(batches, expected, strict=True):
            pixels, classes = read_by_pil(folder, numbers)
            assert (pictures.dtype, labels.dtype) == (torch.uint8, torch.int64)
            assert np.array_equal(pictures.numpy()[..., 0], pixels)
            assert labels.tolist() == classes


def test_the_exact_last_batch_holds_only_what_is_left(folder):
    loader = DALILoader(as_read, 10, samples=folder, sampling="sequential", last="exact")
    assert [tuple(pictures.shape) for pictures, _ in loader] == [(10, 28, 28, 1), (10, 28, 28, 1), (3, 28, 28, 1)]


def test_ranks_evaluate_every_sample_once(folder):
    seen = []
    for rank in range(3):
        loader = DALILoader(as_read, 4, samples=folder, sampling="sequential", last="exact", rank=rank, world_size=3)
        seen += [number for batch in numbers_of(folder, loader) for number in batch]
    assert sorted(seen) == list(range(23))


@pytest.mark.parametrize("closed", [True, False], ids=["iterator closed", "iterator kept"])
@pytest.mark.parametrize("augment", [0, 2])
def test_an_epoch_left_early_costs_the_next_ones_nothing(folder, closed, augment):
    loader = DALILoader(as_read, 5, samples=folder, last="exact", augment=augment)
    for left_after in range(len(loader) + 1):
        loader.batch_sampler.set_epoch(0)
        left = iter(loader)
        begun = [next(left) for _ in range(left_after)]
        assert numbers_of(folder, begun) == order_of(0, 23, 5, last="exact")[:left_after]
        if closed:
            left.close()
        for epoch in (1, 2):
            loader.batch_sampler.set_epoch(epoch)
            assert numbers_of(folder, loader) == order_of(epoch, 23, 5, last="exact")


def test_an_epoch_left_early_is_not_read_to_its_end():
    class Counted:
        read = 0

        def __len__(self) -> int:
            return 1000

        def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
            self.read += 1
            return (np.array(index),)

    samples = Counted()
    loader = DALILoader(lambda node: (node,), 2, samples=samples)
    for _ in range(2):
        next(iter(loader))
    assert samples.read < 30  # two beginnings, each with what DALI reads ahead


def test_a_plain_loop_repeats_an_epoch_until_it_is_told_another(folder):
    loader = DALILoader(as_read, 4, samples=folder, seed=1)
    first, second = ([labels.tolist() for _, labels in loader] for _ in range(2))
    loader.batch_sampler.set_epoch(1)
    third = [labels.tolist() for _, labels in loader]
    assert first == second != third


def test_augmentation_numbers_reach_the_graph_beside_their_pictures(folder):
    loader = DALILoader(as_read, 5, samples=folder, augment=3, seed=9)
    for epoch in (0, 4):
        loader.batch_sampler.set_epoch(epoch)
        for (_, _, uniform), numbers in zip(loader, order_of(epoch, 23, 5, seed=9), strict=True):
            assert np.array_equal(uniform.numpy(), augmentation(numbers, 3, seed=9, epoch=epoch))


def test_an_augmented_epoch_repeats_exactly_in_a_new_loader_and_differs_from_another(folder):
    def one_epoch(epoch: int, left_early: bool = False) -> torch.Tensor:
        loader = DALILoader(rotated, 5, samples=folder, sampling="fixed_cycle", augment=1)
        if left_early:
            next(iter(loader))
        loader.batch_sampler.set_epoch(epoch)
        return torch.cat([pictures for pictures, _ in loader])

    assert torch.equal(one_epoch(1), one_epoch(1, left_early=True))
    assert not torch.equal(one_epoch(1), one_epoch(2))


def rotated(path, label, uniform):
    picture = fn.decoders.image(fn.io.file.read(path), output_type=types.GRAY)
    return fn.rotate(picture, angle=fn.squeeze(uniform, axes=0) * 90, keep_size=True), label


def test_any_samples_with_any_number_of_arrays_will_do():
    class Squares:
        def __len__(self) -> int:
            return 7

        def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
            return np.full((2, 3), index, dtype=np.float32), np.array([index**2], dtype=np.int32), np.array(index % 2 == 0)

    loader = DALILoader(lambda *nodes: nodes, 7, samples=Squares(), sampling="sequential")
    ((blocks, squares, even),) = loader
    assert torch.equal(blocks, torch.arange(7.0)[:, None, None].expand(7, 2, 3))
    assert torch.equal(squares, torch.arange(7, dtype=torch.int32)[:, None] ** 2)
    assert even.tolist() == [True, False, True, False, True, False, True]


def test_too_few_samples_are_refused(folder):
    with pytest.raises(UserError, match="23 samples are too few for a batch of 8 on each of 3 ranks"):
        DALILoader(as_read, 8, samples=folder, world_size=3)


def test_a_second_iteration_ends_the_first_with_a_sentence(folder):
    """Two at once would take each other's batches without a word."""
    loader = DALILoader(as_read, 5, samples=folder)
    first = iter(loader)
    next(first)
    next(iter(loader))
    with pytest.raises(UserError, match="one loader for each loop"):
        next(first)
