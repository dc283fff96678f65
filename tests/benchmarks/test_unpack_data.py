"""Data sets on disk become class folders, whole or not at all."""

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks.unpack_data import main, unpack
from lightning_fastnet.data.class_folder import ClassFolder
from lightning_fastnet.errors import UserError

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


def sums(source: Path) -> Path:
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  ./{file.name}\n" for file in source.iterdir()]
    (source / "SHA256SUMS").write_text("".join(lines))
    return source


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    """30 and 20 digits: picture i is grey of level i and of class i % 10."""
    source = tmp_path / "mnist"
    source.mkdir()
    for part, count in (("train", 30), ("t10k", 20)):
        numbers = np.arange(count, dtype=np.uint8)
        for name, array in (("images-idx3", np.tile(numbers[:, None, None], (1, 28, 28))), ("labels-idx1", numbers % 10)):
            header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
            (source / f"{part}-{name}-ubyte.gz").write_bytes(gzip.compress(header + array.tobytes()))
    return sums(source)


@pytest.fixture
def cifar10(tmp_path: Path) -> Path:
    source = tmp_path / "cifar10"
    source.mkdir()
    with tarfile.open(source / "cifar10-jpeg.tar.xz", "w:xz") as tar:
        for name in (
            "test/cat/0000.jpg",
            "test/dog/0000.jpg",
            "train/cat/0000.jpg",
            "train/cat/0001.jpg",
            "train/dog/0000.jpg",
            "../x/y.jpg",
        ):
            member = tarfile.TarInfo(name)
            member.size = len(name)
            tar.addfile(member, io.BytesIO(name.encode()))
    return sums(source)


def test_mnist_becomes_pngs_of_the_same_pixels(mnist, tmp_path):
    assert unpack("mnist", mnist, tmp_path / "out")
    for split, count in (("train", 30), ("val", 20)):
        folder = ClassFolder.read(tmp_path / "out" / split)
        assert folder.classes == [str(digit) for digit in range(10)]
        shown = {int(Path(path).stem): np.asarray(Image.open(path)) for path in folder.paths}
        assert all((pixels == number).all() and pixels.shape == (28, 28) for number, pixels in shown.items())
        assert sorted(shown) == list(range(count))
        assert [int(Path(path).stem) % 10 for path in folder.paths] == folder.labels.tolist()


def test_cifar10s_files_are_copied_and_its_test_is_our_val(cifar10, tmp_path):
    assert unpack("cifar10", cifar10, tmp_path / "out")
    files = {file.relative_to(tmp_path / "out").as_posix(): file.read_text() for file in (tmp_path / "out").rglob("*.jpg")}
    names = ("train/cat/0000.jpg", "train/cat/0001.jpg", "train/dog/0000.jpg", "val/cat/0000.jpg", "val/dog/0000.jpg")
    assert files == {name: name.replace("val", "test") for name in names}


@pytest.mark.parametrize(("name", "each"), [("mnist", [1] * 20), ("cifar10", [1] * 4)])
def test_a_few_pictures_a_class_will_do(name, each, tmp_path, request):
    unpack(name, request.getfixturevalue(name), tmp_path / "out", per_class=1)
    assert [len(list(folder.iterdir())) for folder in (tmp_path / "out").glob("*/*")] == each


def test_a_second_call_finds_the_first_ones_and_a_killed_one_leaves_no_half(mnist, tmp_path, monkeypatch):
    saved, save = [], Image.Image.save

    def dies(self: Image.Image, *arguments: object) -> None:
        saved.append(None)
        if len(saved) == 25:
            raise KeyboardInterrupt
        save(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "save", dies)
        with pytest.raises(KeyboardInterrupt):
            unpack("mnist", mnist, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["mnist"]
    assert unpack("mnist", mnist, tmp_path / "out")
    assert not unpack("mnist", mnist, tmp_path / "out")


@pytest.mark.parametrize("what", ["changed", "missing", "unlisted", "no sums"])
def test_a_damaged_source_is_refused_and_leaves_nothing(mnist, tmp_path, what):
    file = mnist / "train-labels-idx1-ubyte.gz"
    if what == "changed":
        file.write_bytes(file.read_bytes()[:-1])
    elif what == "missing":
        file.unlink()
    else:
        (mnist / "SHA256SUMS").unlink() if what == "no sums" else (mnist / "SHA256SUMS").write_text("")
    words = {"changed": "does not have the sum of", "missing": "does not exist", "unlisted": "has no line for", "no sums": "does not exist"}
    with pytest.raises(UserError, match=words[what]):
        unpack("mnist", mnist, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["mnist"]


def test_a_target_that_is_something_else_is_refused(mnist, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match=r"out exists and has no train/ and val/: name another target"):
        unpack("mnist", mnist, tmp_path / "out")


def test_the_command_says_what_it_did_and_what_is_wrong_in_one_line(mnist, tmp_path, capsys):
    main(["mnist", str(mnist), str(tmp_path / "out"), "--per-class", "2"])
    assert capsys.readouterr().out == f"{tmp_path / 'out'}: written\n"
    with pytest.raises(SystemExit, match="SHA256SUMS does not exist: name the folder"):
        main(["mnist", str(tmp_path / "nowhere"), str(tmp_path / "other")])


@pytest.mark.skipif(not (SHARED / "mnist").is_dir(), reason="the data sets lie beside a checkout only")
def test_the_real_digits_are_read(tmp_path):
    unpack("mnist", SHARED / "mnist", tmp_path / "out", per_class=3)
    assert [len(ClassFolder.read(tmp_path / "out" / split)) for split in ("train", "val")] == [30, 30]
