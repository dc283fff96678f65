"""Which samples make up which batch: a function of the seed, the epoch and the position alone, for any number of ranks.

::

    epoch's order      s0 s1 s2 s3 | s4 s5 s6 s7 | s8 s9         (a permutation, or the samples as they stand)
    training,  "drop"  global batch 0, 1: rank 0 takes the left half of each, rank 1 the right; s8, s9 wait for another epoch
    evaluation,"exact" rank 0 takes s0 s2 s4 s6 s8, rank 1 takes s1 s3 s5 s7 s9: every sample once
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lightning_fastnet.errors import UserError

SAMPLINGS = ("shuffle", "fixed_cycle", "sequential")
LASTS = ("drop", "exact")

_ORDER_STREAM, _AUGMENT_STREAM = 1, 2  # one key a purpose, so that the order and the augmentation draw different numbers


def epoch_order(num_samples: int, sampling: str, seed: int, epoch: int) -> NDArray[np.int64]:
    """The samples' numbers in the order in which an epoch visits them.

    Args:
        sampling: ``"shuffle"`` draws a permutation from (seed, epoch), ``"fixed_cycle"`` from the seed alone (the same batches
            every epoch), ``"sequential"`` leaves the samples as they stand.
    """
    if sampling == "sequential":
        return np.arange(num_samples)
    drawn_for = epoch if sampling == "shuffle" else 0
    # raw bits of a counter-based generator and a stable sort: numpy promises both to be the same in every release
    bits = np.random.Philox(key=_key(seed, _ORDER_STREAM), counter=[0, 0, drawn_for, 0]).random_raw(num_samples)
    return np.argsort(bits, kind="stable")


def augmentation(samples: Sequence[int], count: int, seed: int, epoch: int) -> NDArray[np.float32]:
    """``count`` uniform numbers in [0, 1) for each sample, a function of (seed, epoch, sample) alone: shape ``(len(samples), count)``."""
    key = _key(seed, _AUGMENT_STREAM)
    raw = [np.random.Philox(key=key, counter=[0, sample, epoch, 0]).random_raw(count) for sample in samples]
    return ((np.array(raw, dtype=np.uint64).reshape(len(samples), count) >> np.uint64(40)) * 2.0**-24).astype(np.float32)


def _key(seed: int, stream: int) -> NDArray[np.uint64]:
    return np.array([seed % 2**64, stream], dtype=np.uint64)


class BatchOrder:
    """The batches of one rank, epoch after epoch.

    Iterating gives one epoch: lists of sample numbers. ``set_epoch`` is what Lightning (and torch's samplers) call it; a
    ``DataLoader`` takes this object as its ``batch_sampler``.

    It also keeps how far the epoch under way got. A loader reads ahead, so only the loader knows which batches the training loop
    has: it takes the epoch with :meth:`begin` and says :meth:`hand_out` for each batch.

    Args:
        num_samples: samples of the data set, on all ranks together.
        batch_size: samples of a batch on one rank.
        last: ``"drop"``: every rank the same number of full batches (training); ``"exact"``: every sample exactly once, the number of
            batches differs by at most one between ranks, none is empty (evaluation).

    Raises:
        UserError: too few samples for one batch on every rank, or an unknown word.
    """

    def __init__(
        self,
        num_samples: int,
        batch_size: int,
        *,
        rank: int = 0,
        world_size: int = 1,
        sampling: str = "shuffle",
        last: str = "drop",
        seed: int = 0,
    ) -> None:
        if sampling not in SAMPLINGS:
            raise UserError(f"sampling={sampling!r} is unknown: choose one of {', '.join(SAMPLINGS)}.")
        if last not in LASTS:
            raise UserError(f"last={last!r} is unknown: choose one of {', '.join(LASTS)}.")
        if not 0 <= rank < world_size:
            raise UserError(f"rank={rank} is not one of {world_size} ranks, which count from 0.")
        if batch_size < 1:
            raise UserError(f"The batch size is {batch_size}: it must be at least 1.")
        needed = world_size * batch_size if last == "drop" else world_size
        if num_samples < needed:
            what = f"a batch of {batch_size} on each of {world_size} ranks" if last == "drop" else f"one on each of {world_size} ranks"
            raise UserError(f"{num_samples} samples are too few for {what}: use fewer ranks, a smaller batch or more data.")
        self.num_samples, self.batch_size = num_samples, batch_size
        self.rank, self.world_size = rank, world_size
        self.sampling, self.last, self.seed = sampling, last, seed
        self.epoch = 0
        self._position = (0, 0)  # epoch, batches of it handed out
        self._resume_at: tuple[int, int] | None = None
        self._iteration = 0

    @property
    def sampler(self) -> "BatchOrder":
        """Itself: where Lightning looks for ``set_epoch``."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch (counted from 0) that the next iteration gives."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Batches of this rank in every epoch."""
        if self.last == "drop":
            return self.num_samples // (self.batch_size * self.world_size)
        own = len(range(self.rank, self.num_samples, self.world_size))
        return -(-own // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        # a generator: Lightning makes iterators before it sets the epoch and loads a state, so nothing is decided before the first next()
        yield from self.begin()[1]

    def begin(self) -> tuple[int, Iterator[list[int]]]:
        """Begins the chosen epoch, at the loaded position if that lies in this epoch: the iteration's number, and its batches."""
        first = 0
        if self._resume_at is not None and self._resume_at[0] == self.epoch:
            first, self._resume_at = self._resume_at[1], None
        self._position = (self.epoch, first)
        self._iteration += 1
        return self._iteration, self._batches(self.epoch, first)

    def hand_out(self, iteration: int) -> None:
        """Counts a batch that goes to the training loop.

        Raises:
            UserError: another iteration has begun since: two at once would take each other's batches.
        """
        self.check(iteration)
        epoch, batches = self._position
        self._position = (epoch, batches + 1)

    def check(self, iteration: int) -> None:
        """Refuses an iteration that another one has followed (UserError)."""
        if iteration != self._iteration:
            raise UserError("This loader was iterated anew before its last iteration was over: make one loader for each loop.")

    def state_dict(self) -> dict[str, int | str]:
        """The epoch begun last, how many of its batches were handed out, and what they depend on: the same on every rank in training."""
        epoch, batches = self._position
        return {"epoch": epoch, "batches": batches, **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Lets the next iteration of the state's epoch begin after the batches that were handed out; any other epoch begins at 0.

        The number of ranks may differ as long as the global batch is the same.

        Raises:
            UserError: the state is of amid an epoch, and its batches are others than this order's.
        """
        own = self._identity()
        lacking = [name for name in ("epoch", "batches", *own) if name not in state]
        if lacking:
            raise UserError(
                f"The checkpoint's data position lacks {lacking[0]!r}: another loader saved it, resume from another checkpoint."
            )
        epoch, batches = int(state["epoch"]), int(state["batches"])
        if 0 < batches < int(state["num_samples"]) // int(state["global_batch_size"]):
            for name, value in own.items():
                if state[name] != value:
                    raise UserError(
                        f"The checkpoint was saved amid an epoch with {name}={state[name]}, this run has {value}: set it back, or resume "
                        "from a checkpoint of an epoch's end."
                    )
        self._position = (epoch, batches)
        self._resume_at = (epoch, batches) if 0 < batches < len(self) else None

    def _identity(self) -> dict[str, int | str]:
        return {
            "global_batch_size": self.batch_size * self.world_size,
            "num_samples": self.num_samples,
            "seed": self.seed,
            "sampling": self.sampling,
        }

    def _batches(self, epoch: int, first_batch: int) -> Iterator[list[int]]:
        order = epoch_order(self.num_samples, self.sampling, self.seed, epoch)
        if self.last == "exact":
            order = order[self.rank :: self.world_size]
            first, stride = 0, self.batch_size
        else:
            first, stride = self.rank * self.batch_size, self.batch_size * self.world_size
        for batch in range(first_batch, len(self)):
            start = first + batch * stride
            yield order[start : start + self.batch_size].tolist()


class Loader(Protocol):
    """What a data module gives the Trainer: batches of one epoch after another, which a checkpoint can stop and resume."""

    batch_sampler: BatchOrder

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def state_dict(self) -> dict[str, int | str]: ...
    def load_state_dict(self, state: Mapping[str, Any], /) -> None: ...
