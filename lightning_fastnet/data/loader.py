"""DALILoader: exact epochs, in an order of our own, from any DALI pipeline."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from nvidia.dali import Pipeline, fn, types
from nvidia.dali.plugin.pytorch import feed_ndarray, to_torch_type
from torch import Tensor

from lightning_fastnet.data.order import BatchOrder, augmentation
from lightning_fastnet.data.unreadable import reason_of_dali, unreadable
from lightning_fastnet.errors import UserError


class Samples(Protocol):
    """What a loader reads: sample ``i`` is a tuple of small arrays (a path, a label), one for each input of the pipeline.

    A method ``name(i)``, where there is one, gives the file that an error names.
    """

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> tuple[NDArray[Any], ...]: ...


Batch = tuple[list[int], list[list[NDArray[Any]]]]
"""Sample numbers, and for each input of the pipeline one array a sample."""


class DALILoader:
    """Batches of a DALI pipeline as torch tensors, for any Trainer or loop.

    DALI decodes; the order is :class:`~lightning_fastnet.data.order.BatchOrder`'s, fed in as numbers and paths: an epoch left early
    (``limit_train_batches``, Lightning's sanity check) loses nothing and shows nothing twice, ``len()`` is constant and true. Lightning
    sets the epoch through ``loader.batch_sampler``; elsewhere call ``loader.batch_sampler.set_epoch(epoch)``. ``state_dict()`` says how
    far the training loop got; a new loader that loads it goes on with the next batch of that epoch, on any number of ranks.

    Args:
        pipeline_fn: builds the graph: takes one DALI node for each array of a sample and, if ``augment`` is above 0, a node of that
            many uniform numbers a sample, a function of (seed, epoch, sample); returns the nodes that make up a batch.
        batch_size: samples of a batch on this rank.
        samples: what to read.
        sampling: ``"shuffle"``, ``"fixed_cycle"`` (the same batches every epoch) or ``"sequential"``.
        seed: of order and augmentation.
        last: ``"drop"`` to train, ``"exact"`` to evaluate.
        rank, world_size: this rank's part.
        augment: uniform numbers a sample.
        device_id: the GPU that the pipeline works on; None: the host.
        num_threads: DALI's worker threads.

    Limits: one iteration at a time. A state saved amid an epoch needs the same global batch, data, seed and sampling; ``len()`` stays
    the whole epoch's where it is resumed.

    Raises:
        UserError: too few samples for the ranks and the batch size, a second iteration while one is under way, or a sample on which
            the pipeline fails: the sentence names it.
    """

    def __init__(
        self,
        pipeline_fn: Callable[..., Any],
        batch_size: int,
        *,
        samples: Samples,
        sampling: str = "shuffle",
        seed: int = 0,
        last: str = "drop",
        rank: int = 0,
        world_size: int = 1,
        augment: int = 0,
        device_id: int | None = None,
        num_threads: int = 1,
    ) -> None:
        self.batch_sampler = BatchOrder(len(samples), batch_size, rank=rank, world_size=world_size, sampling=sampling, last=last, seed=seed)
        self.batch_size = batch_size
        self._samples, self._augment = samples, augment
        self._feed = _Feed(samples, augment, seed)
        self._pipeline_fn = pipeline_fn
        self._where = {"device_id": device_id, "num_threads": num_threads}
        self._pipeline = self._build(batch_size, self._feed, prefetch_queue_depth=2)
        self._running = False

    def __len__(self) -> int:
        return len(self.batch_sampler)

    def state_dict(self) -> dict[str, int | str]:
        """How far the training loop got: plain numbers and words, the same on every rank."""
        return self.batch_sampler.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where ``state`` was saved: see :meth:`BatchOrder.load_state_dict`, also for what is refused (UserError)."""
        self.batch_sampler.load_state_dict(state)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        self._drain()
        epoch = self.batch_sampler.epoch
        iteration, batches = self.batch_sampler.begin()
        self._feed.begin(batches, epoch)
        self._running = True
        while True:
            self.batch_sampler.check(iteration)
            try:
                outputs = self._run()
            except StopIteration:
                break
            batch = tuple(_to_torch(output) for output in outputs)
            self.batch_sampler.hand_out(iteration)
            yield batch
        self._pipeline.reset()
        self._running = False

    def _drain(self) -> None:
        """Takes out what an abandoned epoch had already put into the pipeline, two batches at most."""
        if not self._running:
            return
        self._feed.end()
        while True:
            try:
                self._run()
            except StopIteration:
                break
        self._pipeline.reset()
        self._running = False

    def _build(self, batch_size: int, source: Callable[[], Any], **settings: Any) -> Any:
        inputs = list(self._samples[0])
        dtypes = [types.to_dali_type(array.dtype.name) for array in inputs]
        ndims = [array.ndim for array in inputs]
        if self._augment:
            dtypes, ndims = [*dtypes, types.FLOAT], [*ndims, 1]
        pipeline = Pipeline(batch_size=batch_size, **self._where, **settings)
        with pipeline:
            nodes = fn.external_source(source=source, num_outputs=len(dtypes), dtype=dtypes, ndim=ndims, batch=True)
            pipeline.set_outputs(*self._pipeline_fn(*nodes))
        pipeline.build()
        return pipeline

    def _run(self) -> Any:
        """The next batch; where DALI fails, which names no file and ends the pipeline, the sample is looked for."""
        try:
            outputs = self._pipeline.run()
        except RuntimeError as error:
            waiting = list(self._feed.waiting)
            self._feed.end()
            self._pipeline, self._running = self._build(self.batch_size, self._feed, prefetch_queue_depth=2), False
            refused = self._first_refused(waiting)
            if refused is None:
                raise
            raise refused from error
        self._feed.waiting.popleft()
        return outputs

    def _first_refused(self, batches: list[Batch]) -> UserError | None:
        """Runs the samples of batches one by one, with the same augmentation; None if none of them fails alone."""
        alone: list[list[NDArray[Any]]] = []
        # nothing read ahead: a failure is the failure of the sample just given
        probe = self._build(1, lambda: alone, prefetch_queue_depth=1, exec_async=False, exec_pipelined=False)
        for indices, arrays in batches:
            for place, index in enumerate(indices):
                alone[:] = [[column[place]] for column in arrays]
                try:
                    probe.run()
                except RuntimeError as error:
                    name = getattr(self._samples, "name", lambda number: f"sample {number}")
                    return unreadable(name(index), reason_of_dali(str(error)))
        return None


class _Feed:
    """The source that DALI calls for each batch, some batches ahead of the training loop."""

    def __init__(self, samples: Samples, augment: int, seed: int) -> None:
        self._samples, self._augment, self._seed = samples, augment, seed
        self.begin(iter(()), 0)

    def begin(self, batches: Iterator[list[int]], epoch: int) -> None:
        self._batches, self._epoch = batches, epoch
        self.waiting: deque[Batch] = deque()  # given to DALI, and not out of it yet

    def end(self) -> None:
        self._batches = iter(())

    def __call__(self) -> list[list[NDArray[Any]]]:
        batch = next(self._batches)
        arrays = [list(column) for column in zip(*(self._samples[index] for index in batch), strict=True)]
        if self._augment:
            arrays.append(list(augmentation(batch, self._augment, self._seed, self._epoch)))
        self.waiting.append((batch, arrays))
        return arrays


def _to_torch(output: Any) -> Tensor:
    """Copies one output out of DALI's own buffer, on the device where it lies."""
    dense = output.as_tensor()
    on_gpu = "GPU" in type(dense).__name__
    tensor = torch.empty(dense.shape(), dtype=to_torch_type[dense.dtype], device=f"cuda:{dense.device_id()}" if on_gpu else "cpu")
    feed_ndarray(dense, tensor, cuda_stream=torch.cuda.current_stream() if on_gpu else None)
    return tensor
