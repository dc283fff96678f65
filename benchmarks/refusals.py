"""How long a user waits for the sentence that says what was wrong: ``python -m benchmarks.refusals``.

Real command, two ranks. Bar: 15 s. Prints a table, the slowest last.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.machine import machine_line
from lightning_fastnet.data.digits import write_digits

BAR_SECONDS = 15.0


def make_folders(place: Path) -> None:
    """Digits of three classes with each of the faults that a folder can have."""
    digits = write_digits(place / "digits")
    for name in ("small", "class_only_in_val", "broken_picture", "empty"):
        for split, count in (("train", 16), ("val", 4)):
            for digit in "012":
                (place / name / split / digit).mkdir(parents=True)
                for file in sorted((digits / split / digit).iterdir())[: 0 if name == "empty" else count]:
                    shutil.copy(file, place / name / split / digit)
    (place / "class_only_in_val" / "val" / "2").rename(place / "class_only_in_val" / "val" / "two")
    broken = sorted((place / "broken_picture" / "train" / "1").iterdir())[3]
    broken.write_bytes(broken.read_bytes()[:60])


WRONG = {
    "unknown recipe": ["recipe=quickstrat"],
    "unknown key": ["optimizr.lr=1"],
    "value of the wrong type": ["trainer.max_epochs=ten"],
    "missing folder": ["data.root=nowhere"],
    "empty folder": ["data.root=empty"],
    "a class that only val/ has": ["data.root=class_only_in_val", "global_batch_size=8"],
    "unreadable picture": ["data.root=broken_picture", "global_batch_size=8", "optimizer.warmup_epochs=0"],
    "a shard smaller than a batch": ["data.root=small", "global_batch_size=64"],
    "fewer devices than asked": ["trainer.accelerator=gpu"],
    "resume from nowhere": ["resume=nowhere"],
    "checkpoint of another class count": ["task=test", "ckpt=run", "model.num_classes=3"],
    "checkpoint of another model": ["task=test", "ckpt=run", "model=resnet18"],
    "unknown argument of a class": ["+trainer.foo=1"],
    "outputs cannot be written": ["outputs=/proc/nowhere"],
}


def main() -> None:
    """Prints seconds and sentence of each wrong line; ends with status 1 if one is over the bar or is not refused."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        make_folders(place)
        two = ["trainer.accelerator=cpu", "trainer.devices=2"]
        first = ["data.root=digits", *two, "trainer.max_epochs=1", "trainer.limit_train_batches=2", "optimizer.warmup_epochs=0"]
        _run(place, [*first, "run_dir=run"])
        rows = []
        for what, words in WRONG.items():
            given = words if any(word.startswith(("data.root", "task", "resume")) for word in words) else ["data.root=digits", *words]
            given = given if "trainer.accelerator=gpu" in words else [*given, *two]
            begun = time.perf_counter()
            done = _run(place, given)
            rows.append((time.perf_counter() - begun, what, done.returncode, done.stderr.strip().splitlines()[-1]))
    rows.sort()
    print("| wrong | seconds | what it says |\n|---|---|---|")
    for seconds, what, _, sentence in rows:
        print(f"| {what} | {seconds:.1f} | {sentence.replace(str(place), '...')} |")
    print(f"\n{machine_line()}")
    if any(status != 2 for _, _, status, _ in rows) or rows[-1][0] > BAR_SECONDS:
        sys.exit("a wrong line was not refused with status 2, or not in time")


def _run(place: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "lightning_fastnet.cli.train", *words], cwd=place, capture_output=True, text=True)


if __name__ == "__main__":
    main()
