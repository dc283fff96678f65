"""Draws ``learning_rate.svg``: ``python docs/learning_rate.py``."""

from pathlib import Path

import matplotlib

from lightning_fastnet.optim.schedules import learning_rate

EPOCHS, STEPS, WARMUP = 90, 20, 5
MILESTONES = (30, 60, 80)


def main() -> None:
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "learning_rate"  # the same file each time
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 2.6), layout="constrained")
    epochs = [step / STEPS for step in range(EPOCHS * STEPS + 1)]
    for decay in ("poly2", "cosine", "linear", "steps"):
        curve = [
            learning_rate(
                step,
                peak=1.0,
                warmup_steps=WARMUP * STEPS,
                total_steps=EPOCHS * STEPS,
                decay=decay,
                milestones=[epoch * STEPS for epoch in MILESTONES],
            )
            for step in range(EPOCHS * STEPS + 1)
        ]
        axes.plot(epochs, curve, label=decay)
    axes.axvline(WARMUP, color="grey", linewidth=0.5)
    axes.annotate("warmup_epochs", (WARMUP, 0.02), (WARMUP + 1, 0.02), color="grey")
    axes.set(xlabel="epoch", ylabel="learning rate / peak_lr", ylim=(0, 1.05), xlim=(0, EPOCHS))
    axes.legend()
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
