"""Batches depend on seed, epoch and position alone, on any number of ranks; evaluation sees every sample once."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lightning_fastnet.data.order import SAMPLINGS, BatchOrder, augmentation, epoch_order
from lightning_fastnet.errors import UserError

no_clock = settings(deadline=None, max_examples=150)

samples = st.integers(1, 200)
ranks = st.integers(1, 8)
batch_sizes = st.integers(1, 16)
epochs = st.integers(0, 1000)
seeds = st.integers(0, 2**63)
samplings = st.sampled_from(SAMPLINGS)


def batches(num_samples: int, batch_size: int, epoch: int = 0, **order: object) -> list[list[int]]:
    """One rank's epoch as plain lists, with ``len()`` checked on the way."""
    made = BatchOrder(num_samples, batch_size, **order)
    made.set_epoch(epoch)
    listed = list(made)
    assert len(made) == len(listed)
    return listed


# ---- the epoch's order ---------------------------------------------------------------------------------------------------------------


@no_clock
@given(samples, samplings, seeds, epochs)
def test_an_epoch_visits_every_sample_once(num_samples, sampling, seed, epoch):
    assert sorted(epoch_order(num_samples, sampling, seed, epoch).tolist()) == list(range(num_samples))


def test_sequential_leaves_the_samples_as_they_stand():
    assert epoch_order(7, "sequential", 3, 5).tolist() == [0, 1, 2, 3, 4, 5, 6]


@no_clock
@given(st.integers(20, 200), seeds, epochs, epochs)
def test_shuffle_is_new_in_every_epoch_and_fixed_cycle_is_not(num_samples, seed, one, other):
    assume(one != other)
    assert epoch_order(num_samples, "shuffle", seed, one).tolist() != epoch_order(num_samples, "shuffle", seed, other).tolist()
    assert epoch_order(num_samples, "fixed_cycle", seed, one).tolist() == epoch_order(num_samples, "fixed_cycle", seed, other).tolist()


@no_clock
@given(st.integers(20, 200), st.sampled_from(["shuffle", "fixed_cycle"]), seeds, seeds)
def test_another_seed_gives_another_order(num_samples, sampling, one, other):
    assume(one != other)
    assert epoch_order(num_samples, sampling, one, 0).tolist() != epoch_order(num_samples, sampling, other, 0).tolist()


def test_every_sample_comes_first_about_equally_often():
    first = np.array([epoch_order(5, "shuffle", 0, epoch)[0] for epoch in range(2000)])
    assert np.abs(np.bincount(first, minlength=5) / 2000 - 0.2).max() < 0.05  # 5 standard deviations


def test_the_order_is_the_one_that_published_runs_had():
    assert epoch_order(10, "shuffle", 0, 0).tolist() == [5, 3, 7, 8, 2, 4, 1, 0, 6, 9]
    assert epoch_order(10, "shuffle", 0, 1).tolist() == [4, 3, 0, 1, 5, 9, 6, 2, 8, 7]


# ---- training: last="drop" -----------------------------------------------------------------------------------------------------------


@no_clock
@given(samples, ranks, batch_sizes, epochs, seeds, samplings)
def test_drop_joins_to_the_batches_of_one_process(num_samples, world_size, batch_size, epoch, seed, sampling):
    joined = world_size * batch_size
    assume(num_samples >= joined)
    how = {"sampling": sampling, "seed": seed, "epoch": epoch}
    of_ranks = [batches(num_samples, batch_size, rank=rank, world_size=world_size, **how) for rank in range(world_size)]
    assert all(len(batch) == batch_size for rank in of_ranks for batch in rank)
    assert [[sample for part in parts for sample in part] for parts in zip(*of_ranks, strict=True)] == batches(num_samples, joined, **how)


@no_clock
@given(samples, batch_sizes, epochs, seeds, samplings)
def test_drop_cuts_the_epochs_order_into_full_batches(num_samples, batch_size, epoch, seed, sampling):
    assume(num_samples >= batch_size)
    order = epoch_order(num_samples, sampling, seed, epoch).tolist()
    full = [order[start : start + batch_size] for start in range(0, num_samples - batch_size + 1, batch_size)]
    assert batches(num_samples, batch_size, epoch, sampling=sampling, seed=seed) == full


# ---- evaluation: last="exact" --------------------------------------------------------------------------------------------------------


@no_clock
@given(samples, ranks, batch_sizes, epochs, samplings)
def test_exact_gives_every_sample_once_in_batches_that_are_never_empty(num_samples, world_size, batch_size, epoch, sampling):
    assume(num_samples >= world_size)
    of_ranks = [
        batches(num_samples, batch_size, epoch, rank=rank, world_size=world_size, sampling=sampling, last="exact")
        for rank in range(world_size)
    ]
    assert sorted(sample for rank in of_ranks for batch in rank for sample in batch) == list(range(num_samples))
    assert all(0 < len(batch) <= batch_size for rank in of_ranks for batch in rank)
    assert all(len(batch) == batch_size for rank in of_ranks for batch in rank[:-1])
    counts = [len(rank) for rank in of_ranks]
    assert max(counts) - min(counts) <= 1


# ---- both ----------------------------------------------------------------------------------------------------------------------------


@no_clock
@given(samples, ranks, batch_sizes, st.sampled_from(["drop", "exact"]))
def test_too_few_samples_are_refused_and_just_enough_are_not(num_samples, world_size, batch_size, last):
    needed = world_size * batch_size if last == "drop" else world_size
    if num_samples < needed:
        with pytest.raises(UserError, match=rf"^{num_samples} samples are too few for .* on each of {world_size} ranks: use fewer ranks"):
            BatchOrder(num_samples, batch_size, world_size=world_size, last=last)
    assert len(BatchOrder(needed, batch_size, rank=world_size - 1, world_size=world_size, last=last)) == 1


@no_clock
@given(samples, ranks, batch_sizes, st.sampled_from(["drop", "exact"]), samplings)
def test_len_is_true_in_every_epoch_and_does_not_change(num_samples, world_size, batch_size, last, sampling):
    assume(num_samples >= world_size * batch_size)
    order = BatchOrder(num_samples, batch_size, rank=world_size - 1, world_size=world_size, last=last, sampling=sampling)
    lengths = []
    for epoch in range(3):
        order.set_epoch(epoch)
        lengths += [len(order), sum(1 for _ in order), len(order)]
    assert len(set(lengths)) == 1


def test_an_iteration_that_was_left_early_changes_nothing():
    order = BatchOrder(20, 4, seed=1)
    whole = list(order)
    next(iter(order))
    assert list(order) == whole


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"sampling": "random"}, "sampling='random' is unknown: choose one of shuffle, fixed_cycle, sequential"),
        ({"last": "pad"}, "last='pad' is unknown: choose one of drop, exact"),
        ({"batch_size": 0}, "batch size is 0: it must be at least 1"),
    ],
)
def test_a_wrong_word_is_refused_in_a_sentence(wrong, words):
    with pytest.raises(UserError, match=words):
        BatchOrder(**{"num_samples": 10, "batch_size": 2} | wrong)


# ---- augmentation --------------------------------------------------------------------------------------------------------------------


@no_clock
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20), st.integers(1, 9), seeds, epochs)
def test_a_samples_numbers_do_not_depend_on_the_batch_it_is_in(chosen, count, seed, epoch):
    together = augmentation(chosen, count, seed, epoch)
    alone = [augmentation([sample], count, seed, epoch)[0].tolist() for sample in chosen]
    assert together.tolist() == alone
    assert together.dtype == np.float32
    assert 0 <= together.min() <= together.max() < 1


def test_numbers_differ_between_samples_epochs_seeds_and_places():
    drawn = [augmentation(range(50), 6, seed, epoch) for seed in (0, 1) for epoch in range(10)]
    values, repeats = np.unique(np.concatenate(drawn), return_counts=True)
    assert len(values) > 0.999 * 6000  # of 2^24 values, two of 6,000 draws meet about once
    assert repeats.max() == 2


def test_numbers_are_uniform_and_the_places_of_a_sample_independent():
    drawn = augmentation(range(20_000), 2, seed=7, epoch=3).astype(np.float64)
    share_below = np.sort(drawn, axis=0)
    assert np.abs(share_below - np.linspace(0, 1, 20_000)[:, None]).max() < 1.95 / np.sqrt(20_000)  # Kolmogorov-Smirnov, p = 0.001
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 4 / np.sqrt(20_000)
    assert abs(np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]) < 4 / np.sqrt(20_000)
