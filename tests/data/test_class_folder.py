"""Class folders are listed as torchvision's ImageFolder lists them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from torchvision.datasets import ImageFolder

from lightning_fastnet.data.class_folder import ClassFolder, class_names
from lightning_fastnet.errors import UserError


def touch(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def test_digits_are_listed_as_imagefolder_lists_them(digits):
    ours, theirs = ClassFolder.read(digits / "val"), ImageFolder(str(digits / "val"))
    assert list(zip(ours.paths, ours.labels.tolist(), strict=True)) == theirs.samples
    assert ours.classes == theirs.classes
    assert len(ours) == 1000


def test_only_pictures_in_visible_class_folders_count(tmp_path):
    root = touch(tmp_path, "b/2.JPG", "b/10.jpeg", "a/x.png", "a/notes.txt", "a/png", ".hidden/y.png", "stray.png")
    (root / "a" / "folder.png").mkdir()
    folder = ClassFolder.read(root)
    assert [os.path.relpath(path, root) for path in folder.paths] == ["a/x.png", "b/10.jpeg", "b/2.JPG"]
    assert folder.labels.tolist() == [0, 1, 1]
    assert folder.classes == ["a", "b"]


def test_a_sample_is_the_absolute_path_as_bytes_and_the_label(tmp_path, monkeypatch):
    touch(tmp_path, "data/ä/1.png", "data/ö/1.png")
    monkeypatch.chdir(tmp_path)
    path, label = ClassFolder.read("data")[1]
    assert path.tobytes() == os.fsencode(tmp_path / "data" / "ö" / "1.png")
    assert (label.dtype, label.shape, int(label)) == ("int64", (), 1)


def test_given_classes_give_the_labels(tmp_path):
    folder = ClassFolder.read(touch(tmp_path, "c/1.png", "a/1.png"), classes=["a", "b", "c"])
    assert folder.labels.tolist() == [0, 2]
    assert folder.classes == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("files", "classes", "words"),
    [
        ([], None, "data does not exist: give a folder that holds one subfolder of pictures a class"),
        (["data/stray.png"], None, "data holds no pictures: it needs one subfolder a class"),
        (["data/a/1.txt"], None, "data holds no pictures: it needs one subfolder a class with .*.png"),
        (["data/a/1.png", "data/z/1.png"], ["a"], "data has the class 'z', which the training data lacks: remove it or add it"),
    ],
    ids=["missing", "no folders", "no pictures", "unknown class"],
)
def test_a_bad_folder_is_refused_in_a_sentence(tmp_path, files, classes, words):
    touch(tmp_path, *files)
    with pytest.raises(UserError, match=words):
        ClassFolder.read(tmp_path / "data", classes)


def test_class_names_are_the_training_sets_as_imagefolder_lists_them(digits):
    assert class_names(digits) == ImageFolder(str(digits / "train")).classes == ClassFolder.read(digits / "train").classes


@pytest.mark.parametrize("files", [[], ["train/stray.png"], ["train/a/1.txt"]], ids=["missing", "no folders", "no pictures"])
def test_class_names_of_a_bad_folder_are_refused_in_the_words_of_the_listing(tmp_path, files):
    touch(tmp_path, *files)
    with pytest.raises(UserError) as listing:
        ClassFolder.read(tmp_path / "train")
    with pytest.raises(UserError) as naming:
        class_names(tmp_path)
    assert str(naming.value) == str(listing.value)


def test_listing_needs_neither_torch_nor_lightning_nor_dali():
    code = "import sys, lightning_fastnet.data.class_folder; print([m for m in ('torch', 'lightning', 'nvidia') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_flat_listing_has_every_picture_at_any_depth_once_sorted(tmp_path):
    touch(tmp_path, "b/2.jpg", "b/10.jpg", "a/x/y/1.PNG", "0.png", "a/notes.txt", ".cache/z.png")
    (tmp_path / "a" / "up").symlink_to(tmp_path)  # a loop
    folder = ClassFolder.read_flat(tmp_path)
    assert [os.path.relpath(path, tmp_path) for path in folder.paths] == ["0.png", "a/x/y/1.PNG", "b/10.jpg", "b/2.jpg"]
    assert folder.labels.tolist() == [0, 0, 0, 0]
    assert folder.classes == []


@pytest.mark.parametrize(
    ("files", "words"),
    [([], "data does not exist: give a folder that holds pictures"), (["data/a.txt"], "data holds no pictures: it needs")],
)
def test_a_flat_folder_without_pictures_is_refused_in_a_sentence(tmp_path, files, words):
    touch(tmp_path, *files)
    with pytest.raises(UserError, match=words):
        ClassFolder.read_flat(tmp_path / "data")


def test_a_class_without_pictures_is_named(tmp_path):
    for file in ("train/a/1.png", "train/b/notes.txt"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).touch()
    for read in (lambda: class_names(tmp_path), lambda: ClassFolder.read(tmp_path / "train")):
        with pytest.raises(UserError, match="The class 'b' in"):
            read()
    assert len(ClassFolder.read(tmp_path / "train", ["a", "b"])) == 1, "an evaluation's folder need not have every class"
