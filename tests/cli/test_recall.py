"""A remembered line and this one's changes make one line."""

import pytest

from lightning_fastnet.cli.recall import _merged


@pytest.mark.parametrize(
    ("first", "then", "merged"),
    [
        (["seed=1", "model=lenet"], ["seed=2"], ["seed=2", "model=lenet"]),
        (["+trainer.foo=1"], ["trainer.foo=2"], ["+trainer.foo=2"]),
        (["+trainer.foo=1"], ["+trainer.foo=2"], ["+trainer.foo=2"]),
        (["+trainer.foo=1"], ["~trainer.foo"], []),
        (["~callbacks.progress"], ["seed=1"], ["~callbacks.progress", "seed=1"]),
        (["run_dir=here", "resume=auto", "outputs=there"], ["task=test"], []),
    ],
)
def test_the_later_word_counts(first: list[str], then: list[str], merged: list[str]) -> None:
    assert _merged(first, then) == merged
