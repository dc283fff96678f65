"""Whole or not there, on real files and a disk of one MiB."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.checkpoint_io import WholeFileCheckpointIO, room_for_checkpoints
from lightning_fastnet.launch.checkpoints import check_fits, make_last, newest_first, read_checkpoint, relocate


def state(value: float, size: int = 1000) -> dict[str, Any]:
    return {"state_dict": {"w": torch.full((size,), value)}, "global_step": int(value)}


def test_written_and_read_back_the_previous_one_beside_it(tmp_path: Path) -> None:
    io, file = WholeFileCheckpointIO(), tmp_path / "checkpoints" / "last.ckpt"
    for value in (1.0, 2.0, 3.0):
        io.save_checkpoint(state(value), file)
    assert read_checkpoint(file)["global_step"] == 3
    assert read_checkpoint(file.with_name("previous.ckpt"))["global_step"] == 2
    assert {path.name for path in file.parent.iterdir()} == {"last.ckpt", "previous.ckpt"}
    io.save_checkpoint(state(4.0), file.with_name("best.ckpt"))
    assert read_checkpoint(file.with_name("previous.ckpt"))["global_step"] == 2, "only the last one has a predecessor"
    assert newest_first(tmp_path)[0].name == "best.ckpt"


@pytest.mark.parametrize("where", [0.0, 0.02, 0.5, 0.98])
def test_every_cut_is_seen(tmp_path: Path, where: float) -> None:
    file = tmp_path / "last.ckpt"
    WholeFileCheckpointIO().save_checkpoint(state(1.0), file)
    read_checkpoint(file)
    whole = file.read_bytes()
    file.write_bytes(whole[: int(where * len(whole))])
    with pytest.raises(UserError, match="is damaged"):
        read_checkpoint(file)


def test_a_flipped_bit_anywhere_is_seen_or_without_effect(tmp_path: Path) -> None:
    """In the tensors, in the pickle, in the archive's headers and directory: one bit in each byte of the file."""
    file = tmp_path / "last.ckpt"
    WholeFileCheckpointIO().save_checkpoint(state(1.0, size=4), file)
    whole = file.read_bytes()
    seen = 0
    for place in range(len(whole)):
        content = bytearray(whole)
        content[place] ^= 1 << (4 if content[place] == 0 else place % 8)
        file.write_bytes(content)
        try:
            found = read_checkpoint(file)
        except UserError:
            seen += 1
            continue
        assert torch.equal(found["state_dict"]["w"], torch.ones(4)), place
        assert found["global_step"] == 1, place
    assert seen > len(whole) / 3, "the rest is padding and dates"


def test_a_flipped_bit_in_the_weights_is_seen_although_torch_loads_it(tmp_path: Path) -> None:
    file = tmp_path / "last.ckpt"
    WholeFileCheckpointIO().save_checkpoint(state(1.0), file)
    content = bytearray(file.read_bytes())
    content[content.find(torch.ones(1).numpy().tobytes() * 10)] ^= 1
    file.write_bytes(content)
    torch.load(file, weights_only=True)  # no complaint
    with pytest.raises(UserError, match="is damaged"):
        read_checkpoint(file)


def test_a_save_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "last.ckpt"
    WholeFileCheckpointIO().save_checkpoint(state(1.0), file)

    class Unpicklable:
        def __reduce__(self) -> Any:
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        WholeFileCheckpointIO().save_checkpoint({"state_dict": Unpicklable()}, file)
    assert read_checkpoint(file)["global_step"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["last.ckpt"]


FULL = """
import sys
from pathlib import Path
from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.checkpoint_io import WholeFileCheckpointIO, room_for_checkpoints
import torch
folder = Path(sys.argv[1])
io = WholeFileCheckpointIO()
io.save_checkpoint({"state_dict": {}, "global_step": 1}, folder / "last.ckpt")
for act in (
    lambda: io.save_checkpoint({"state_dict": {"w": torch.rand(2**19)}}, folder / "last.ckpt"),
    lambda: room_for_checkpoints(folder, 2**20),
):
    try:
        act()
    except UserError as error:
        print(error)
print(sorted(path.name for path in folder.iterdir()), torch.load(folder / "last.ckpt")["global_step"])
"""


def test_a_full_disk_is_a_sentence_and_loses_nothing(tmp_path: Path) -> None:
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root and unshare")
    script = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path), sys.executable, FULL], capture_output=True, text=True, check=True
    )
    first, second, third = done.stdout.splitlines()
    assert first.startswith(f"The checkpoint {tmp_path}/last.ckpt cannot be written (the disk is full)")
    assert "MiB left, and a checkpoint of this run takes 1.0" in second
    assert third == "['last.ckpt'] 1"


def test_room_enough_is_no_error(tmp_path: Path) -> None:
    room_for_checkpoints(tmp_path, 1)


def test_what_is_no_checkpoint_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no checkpoint"):
        read_checkpoint(tmp_path / "none.ckpt")
    torch.save([1, 2], tmp_path / "list.ckpt")
    with pytest.raises(UserError, match="is not a checkpoint of a run"):
        read_checkpoint(tmp_path / "list.ckpt")
    torch.save({"state_dict": Path}, tmp_path / "object.ckpt")
    with pytest.raises(UserError, match="more than tensors and plain containers"):
        read_checkpoint(tmp_path / "object.ckpt")


def test_another_models_checkpoint_is_named() -> None:
    model = torch.nn.Linear(3, 2).state_dict()
    check_fits(Path("a.ckpt"), model, model)
    for other, words in (
        (torch.nn.Linear(3, 5).state_dict(), r"weight has shape \(5, 3\), this model's has \(2, 3\)"),
        (torch.nn.Linear(3, 2, bias=False).state_dict(), "it has no bias"),
        ({**model, "more": torch.zeros(1)}, "this model has no more"),
    ):
        with pytest.raises(UserError, match=words):
            check_fits(Path("a.ckpt"), other, model)


def test_a_moved_runs_checkpoints_keep_their_best_score(tmp_path: Path) -> None:
    """Against Lightning itself: the callback takes its state back without a warning (warnings are errors here)."""
    from lightning.pytorch.callbacks import ModelCheckpoint

    before = ModelCheckpoint(tmp_path / "a" / "checkpoints", "best", monitor="x")
    best = str(tmp_path / "a" / "checkpoints" / "best.ckpt")
    before.best_model_score, before.best_model_path, before.best_k_models = torch.tensor(0.5), best, {best: torch.tensor(0.5)}
    states = {before.state_key: before.state_dict(), "other": {"seen": 1}, "listed": [1]}
    relocate(states, tmp_path / "b" / "checkpoints")
    after = ModelCheckpoint(tmp_path / "b" / "checkpoints", "best", monitor="x")
    after.load_state_dict(states[before.state_key])
    assert after.best_model_score == 0.5
    assert list(after.best_k_models) == [after.best_model_path] == [str(tmp_path / "b" / "checkpoints" / "best.ckpt")]
    assert states["other"] == {"seen": 1}


def test_the_chosen_one_becomes_the_last_so_that_the_next_save_keeps_it(tmp_path: Path) -> None:
    io, last = WholeFileCheckpointIO(), tmp_path / "last.ckpt"
    io.save_checkpoint(state(1.0), last)
    io.save_checkpoint(state(2.0), last)
    last.write_bytes(b"damaged")
    make_last(tmp_path / "previous.ckpt")
    assert [read_checkpoint(tmp_path / name)["global_step"] for name in ("last.ckpt", "previous.ckpt")] == [1, 1]
    make_last(last)
    io.save_checkpoint(state(3.0), last)
    assert [read_checkpoint(tmp_path / name)["global_step"] for name in ("last.ckpt", "previous.ckpt")] == [3, 1]
    assert {path.name for path in tmp_path.iterdir()} == {"last.ckpt", "previous.ckpt"}
