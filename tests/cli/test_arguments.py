"""What is refused before Hydra sees it; and wrong lines as real processes: one sentence, exit status 2, nothing left behind."""

import subprocess
import sys
from pathlib import Path

import pytest

from lightning_fastnet.cli.arguments import check_arguments
from lightning_fastnet.errors import UserError


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (
            "callbacks=null",
            "'callbacks=null' names no file of the group callbacks: choose one of default, or leave",
        ),
        ("optimizer=null", "'optimizer=null' names no file of the group optimizer: choose one of lars, "),
        ("recipe=null", "'recipe=null' names no file of the group recipe: choose one of "),
        ("++trainer=5", "'++trainer=5' names no file of the group trainer: choose one of default."),
        ("model={a:1}", "'model={a:1}' names no file of the group model: choose one of "),
        ("optimizer=[lars,sgd]", "'optimizer=[lars,sgd]' names no file of the group optimizer: "),
        ("strategy=", "'strategy=' names no file of the group strategy: choose one of "),
        ("=5", "'=5' has no key before its `=`: write KEY=VALUE, without spaces."),
        ("--nope", "Unrecognized arguments: --nope; settings are written KEY=VALUE, without --; fastnet-train --help shows what there is."),
    ],
)
def test_refused(argument: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        check_arguments([argument])
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    "arguments",
    [
        ["optimizer=sgd", "seed=", "data.root=null", "~callbacks", "~callbacks.progress", "+trainer.foo=1", "callbacks=[default]"],
        ["-m", "optimizer=sgd,lars", "seed=range(3)", "recipe=glob(*)"],
        ["--cfg", "job", "--config-dir", "x", "recipe=not_here"],
        ["seed=[1"],  # Hydra's to refuse
    ],
    ids=" ".join,
)
def test_the_rest_is_hydras(arguments: list[str]) -> None:
    check_arguments(arguments)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("logger=null", "'logger=null' names no file of the group logger: choose one of csv, or leave it out with ~logger."),
        ("trainer.limit_train_batches=abc", "trainer.limit_train_batches=abc must be a number: give batches"),
        ("model.channels_last=2", "model.channels_last=2 must be true or false."),
        ("data.root=${nope}", "data.root points at ${nope}, which is not there: fastnet-train --cfg job shows all keys."),
        ("+seed=3", "The config has seed already: write seed=VALUE without the +."),
        ("seed=1,2", "seed got several values, 1,2: put -m before it for one run each; a list is [1,2]."),
        ("--config-dir /no/such recipe=x", "--config-dir /no/such is no folder: give one that holds recipe/NAME.yaml."),
        ("lr=0.1", "The config has no key 'lr' (did you mean optimizer.lr?); fastnet-train --cfg job shows them all."),
        ("gpus=2", "The config has no key 'gpus' (did you mean trainer.devices?); fastnet-train --cfg job shows them all."),
        (
            "--unknown",
            "Unrecognized arguments: --unknown; settings are written KEY=VALUE, without --; fastnet-train --help shows what there is.",
        ),
        ("~recipe", "recipe_name is empty, and it names the run's folder: give recipe_name=NAME."),
    ],
)
def test_a_wrong_line_is_one_sentence(tmp_path: Path, line: str, words: str) -> None:
    program = [sys.executable, "-m", "lightning_fastnet.cli.train"]
    done = subprocess.run([*program, *line.split()], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.stderr.startswith(f"fastnet-train: {words}")
    assert len(done.stderr.splitlines()) == 1
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (2, "", [])
