"""Bad input, said in one sentence; and the one check that every Lightning part here makes of its Trainer."""

from typing import Any


class UserError(ValueError):
    """What the caller asked for cannot be done. The message is one sentence that says what is wrong and what to do.

    The commands print the sentence alone and exit with a status other than 0; in a script it is an ordinary ``ValueError``.
    """


def require_lightning_trainer(trainer: Any, part: str) -> None:
    """Refuses a Trainer of the twin package ``pytorch_lightning``, whose classes are not those of ``lightning.pytorch``.

    Raises:
        UserError: ``trainer`` is not a ``lightning.pytorch`` Trainer.
    """
    from lightning.pytorch import Trainer

    if not isinstance(trainer, Trainer):
        package = type(trainer).__module__.partition(".")[0]
        raise UserError(
            f"{part} is a lightning.pytorch class, but this Trainer comes from `{package}`: "
            "write `import lightning.pytorch as pl` instead of `import pytorch_lightning as pl`, everywhere."
        )
