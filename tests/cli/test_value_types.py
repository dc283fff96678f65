"""A value of the wrong kind is refused with the key in it; what the library allows goes through."""

import copy
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from lightning_fastnet.cli.configs import register, shipped
from lightning_fastnet.cli.numbers import check_numbers
from lightning_fastnet.cli.value_types import WORDS, check_types, unchanged_config
from lightning_fastnet.errors import UserError
from lightning_fastnet.optim.schedules import DECAYS


def pair(*overrides: str, folder: Path | None = None) -> tuple[DictConfig, DictConfig]:
    """As the command composes them, without a process: the config, and the one that only chooses."""
    register()
    with initialize_config_dir(str(shipped("conf")), version_base="1.3"):
        path = [f"hydra.searchpath=[file://{folder}]"] if folder else []
        config = compose("train", ["recipe_name=x", *path, *overrides], return_hydra_config=True)
        return config, unchanged_config(config.hydra.runtime.choices, path)


def check_both(config: DictConfig, default: DictConfig) -> None:
    check_types(config, default)
    check_numbers(config)


def check(*overrides: str, folder: Path | None = None) -> None:
    check_both(*pair(*overrides, folder=folder))


@pytest.fixture(scope="module")
def plain() -> tuple[DictConfig, DictConfig]:
    return pair()


WRONG = {
    "seed=1.5": "seed=1.5 must be a whole number of at least 0.",
    "seed=null": "seed=null must be a whole number of at least 0.",
    "seed=true": "seed=true must be a whole number of at least 0.",
    "seed=": "seed= must be a whole number of at least 0.",
    "seed=???": "seed=??? must be given: seed=VALUE.",
    "~seed": "A run needs seed, and it was left out: leave ~seed away.",
    "~optimizer.decay": "A run needs optimizer.decay, and it was left out: leave ~optimizer.decay away.",
    "~data._target_": "A run needs data._target_, and it was left out: leave ~data._target_ away.",
    "trainer.enable_model_summary=5": "trainer.enable_model_summary=5 must be true or false.",
    "trainer.enable_model_summary='true '": "trainer.enable_model_summary=true  must be true or false.",
    "model.channels_last=null": "model.channels_last=null must be true or false.",
    "outputs=[a,b]": "outputs=[a,b] must be a single value.",
    "outputs=null": "outputs=null must be a single value.",
    "data.root=[a]": "data.root=[a] must be a single value or null.",
    "data.prepare=5": "data.prepare=5 must be a group of keys (_target_, _partial_).",
    "model.network=null": "model.network=null must be a group of keys (_target_, num_classes).",
    "strategy.timeout=5": "strategy.timeout=5 must be a group of keys (_target_, minutes).",
    "callbacks.progress=null": "callbacks.progress=null must be left out with ~callbacks.progress instead.",
    "callbacks.progress=5": "callbacks.progress=5 must be a group of keys (_target_).",
    "callbacks.checkpoint_best.monitor=[a]": "callbacks.checkpoint_best.monitor=[a] must be a single value.",
    "data.sampling=sorted": "data.sampling=sorted is unknown: choose one of shuffle, fixed_cycle.",
    "data.device=[gpu]": "data.device=[gpu] is unknown: choose one of auto, gpu, cpu.",
    "optimizer.decay=null": "optimizer.decay=null is unknown: choose one of constant, linear, poly2, poly, cosine, steps.",
    "optimizer.end_lr=-1": "optimizer.end_lr=-1 must be a number of at least 0.",
    "optimizer.power=null": "optimizer.power=null must be a number of at least 0.",
    "optimizer.milestones=3": "optimizer.milestones=3 must be a list of numbers, of epochs: optimizer.milestones=[30,60].",
    "optimizer.milestones=[3,x]": "optimizer.milestones=[3,x] must be a list in which each is a number of at least 0.",
    "data.mean=0.5": "data.mean=0.5 must be a list of numbers, one a channel: data.mean=[0.5].",
    "data.mean=null": "data.mean=null must be a list of numbers, one a channel: data.mean=[0.5].",
    "data.mean=[a]": "data.mean=[a] must be a list in which each is a number.",
    "data.std=[0.5,0]": "data.std=[0.5,0] must be a list in which each is a number above 0.",
    "data.image_size=12.5": "data.image_size=12.5 must be a whole number of at least 1.",
    "data.image_size='28'": "data.image_size='28' must be a whole number of at least 1.",
    "data.channels=4": "data.channels=4 must be at most 3.",
    "data.channels=2": "data.channels=2 must be 1 (grey) or 3 (RGB).",
    "data.channels=3": "data.mean=[0.1307] has 1 number(s), but data.channels=3: give one a channel.",
    "data.std=[0.3,0.3]": "data.std=[0.3,0.3] has 2 number(s), but data.channels=1: give one a channel.",
    "data.num_threads=0": "data.num_threads=0 must be a whole number of at least 1.",
    "data.batch_size_per_device=1.0": "data.batch_size_per_device=1.0 must be a whole number of at least 1.",
    "global_batch_size=many": "global_batch_size=many must be a whole number of at least 1.",
    "target=1.5": "target=1.5 must be at most 1.",
    "target=-0.1": "target=-0.1 must be a number of at least 0.",
    "model.num_classes=0": "model.num_classes=0 must be a whole number of at least 1.",
    "model.label_smoothing=2": "model.label_smoothing=2 must be at most 1.",
    "optimizer.lr=-1": "optimizer.lr=-1 must be a number of at least 0.",
    "optimizer.lr=nan": "optimizer.lr=nan must be a number of at least 0.",
    "optimizer.lr=inf": "optimizer.lr=inf must be a number of at least 0.",
    "optimizer.lr=null": "optimizer.lr=null must be a number of at least 0.",
    "optimizer.momentum=1": "optimizer.momentum=1 must be a number of at least 0 and below 1.",
    "optimizer.weight_decay=-1": "optimizer.weight_decay=-1 must be a number of at least 0.",
    "optimizer.trust_coefficient=-1": "optimizer.trust_coefficient=-1 must be a number of at least 0.",
    "optimizer.warmup_epochs=-1": "optimizer.warmup_epochs=-1 must be a number of at least 0.",
    "strategy.bucket_cap_mb=0": "strategy.bucket_cap_mb=0 must be a number above 0.",
    "strategy.timeout.minutes=0": "strategy.timeout.minutes=0 must be a number above 0.",
    "trainer.max_epochs=0": "trainer.max_epochs=0 must be a whole number of at least 1.",
    "trainer.log_every_n_steps=0": "trainer.log_every_n_steps=0 must be a whole number of at least 1.",
    "trainer.gradient_clip_val=big": "trainer.gradient_clip_val=big must be a number of at least 0.",
    "trainer.limit_train_batches=abc": "trainer.limit_train_batches=abc must be a number: give batches (1, 2, ...)",
    "trainer.limit_val_batches=false": "trainer.limit_val_batches=false must be a number: give batches (1, 2, ...)",
    "trainer.limit_train_batches=0": "trainer.limit_train_batches=0 leaves no training batches: give",
    "trainer.limit_test_batches=0.0": "trainer.limit_test_batches=0.0 leaves no test batches: give",
    "trainer.limit_val_batches=1.5": "trainer.limit_val_batches=1.5 is neither a whole number of batches nor a share of them: give",
    "trainer.limit_val_batches=-1": "trainer.limit_val_batches=-1 is neither a whole number of batches nor a share of them: give",
    "+trainer.limit_predict_batches=x": "trainer.limit_predict_batches=x must be a number: give",
}


@pytest.mark.parametrize(("override", "words"), WRONG.items(), ids=WRONG)
def test_refused(plain: tuple[DictConfig, DictConfig], override: str, words: str) -> None:
    """A plain value is set in a copy of one composed config, which takes a fraction of composing it again."""
    (parsed,) = OverridesParser.create().parse_overrides([override])
    if parsed.is_delete() or parsed.is_add():
        config, default = pair(override)
    else:
        config, default = copy.deepcopy(plain[0]), plain[1]
        OmegaConf.update(config, parsed.key_or_group, parsed.value(), merge=False)
    with pytest.raises(UserError) as caught:
        check_both(config, default)
    assert str(caught.value).startswith(words)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    "overrides",
    [
        "outputs=2026 recipe_name=5 data.root=2026 data.prepare=null strategy.timeout=null optimizer.lr=1 optimizer.warmup_epochs=0.5",
        "trainer.devices=2 target=1 trainer.limit_train_batches=1.0 trainer.limit_val_batches=3 trainer.limit_test_batches=null",
        "trainer.max_epochs=null data.mean=[0] logger.version=null strategy.bucket_cap_mb=0.5 callbacks.checkpoint_best.filename=7",
        "optimizer=sgd strategy=ddp data=digits_torch precision=bf16_mixed callbacks=[default] data.root=null seed=4294967295",
        "callbacks=[] ~logger ~optimizer.momentum ~recipe +trainer.max_steps=3 optimizer.lr=${seed} model.num_classes=null",
        "~callbacks recipe=quickstart trainer.devices=auto",
        "~callbacks.progress",
    ],
)
def test_allowed(overrides: str) -> None:
    check(*overrides.split())


def test_a_recipe_is_no_excuse(tmp_path: Path) -> None:
    """Its values are compared with the groups' files like those of the command line."""
    (tmp_path / "recipe").mkdir()
    (tmp_path / "recipe" / "mine.yaml").write_text("# @package _global_\nmodel:\n  channels_last: 3\n")
    with pytest.raises(UserError, match=r"^model.channels_last=3 must be true or false.$"):
        check("recipe=mine", folder=tmp_path)


def test_the_choice_decides_what_is_expected(tmp_path: Path) -> None:
    """Also a file of somebody else, with kinds of its own."""
    (tmp_path / "optimizer").mkdir()
    (tmp_path / "optimizer" / "mine.yaml").write_text("defaults: [sgd, _self_]\nbeta: 0.5\nsteps: 3\ntags: [a]\nbetas: [0.9, 0.99]\n")
    check("optimizer=mine", "optimizer.beta=1", "optimizer.tags=[b,3]", "optimizer.betas=[0,1]", folder=tmp_path)
    for override, words in {
        "optimizer.beta=x": "optimizer.beta=x must be a number.",
        "optimizer.steps=2.5": "optimizer.steps=2.5 must be a whole number.",
        "optimizer.tags=a": r"optimizer.tags=a must be a list: \[A,B\].",
        "optimizer.betas=[a,1]": r"optimizer.betas=\[a,1\] must be a list in which each is a number.",
    }.items():
        with pytest.raises(UserError, match=f"^{words}$"):
            check("optimizer=mine", override, folder=tmp_path)


def test_it_reads_and_changes_nothing() -> None:
    config = OmegaConf.create({"a": 1, "b": {"c": "text"}})
    before = OmegaConf.to_yaml(config)
    check_types(config, OmegaConf.create({"a": 2, "b": {"c": "other", "d": None}}))
    assert OmegaConf.to_yaml(config) == before
    assert isinstance(config, DictConfig)


def test_the_words_are_those_of_the_code() -> None:
    assert set(WORDS["optimizer.decay"]) == set(DECAYS)
