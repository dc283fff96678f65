"""The picture shows the columns of metrics.csv, gaps and all."""

from pathlib import Path

import matplotlib.figure
import pytest
from lightning.pytorch.loggers import CSVLogger
from PIL import Image

from lightning_fastnet.report.learning_curve import draw_learning_curve, read_column


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    """What Lightning's CSVLogger writes in a run of two epochs: each row fills some columns and leaves the others empty."""
    logger = CSVLogger(tmp_path, name="", version="")
    for epoch in range(2):
        for step, loss in ((1, 2.0), (3, 1.0)):
            logger.log_metrics({"train/loss": loss / (epoch + 1), "epoch": epoch}, step=4 * epoch + step)
        logger.log_metrics({"profile/step_ms": 3.5}, step=4 * epoch + 3)
        logger.log_metrics({"val/top1": 0.5 + 0.25 * epoch, "val/loss": 1.0 - 0.5 * epoch, "epoch": epoch}, step=4 * epoch + 3)
    logger.log_metrics({"test/top1": 0.75, "epoch": 2}, step=8)
    logger.save()
    return tmp_path / "metrics.csv"


@pytest.fixture
def drawn(monkeypatch) -> list[matplotlib.figure.Figure]:
    """The figures that were saved."""
    figures = []
    save = matplotlib.figure.Figure.savefig

    def keep(figure: matplotlib.figure.Figure, *arguments, **settings) -> None:
        figures.append(figure)
        save(figure, *arguments, **settings)

    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", keep)
    return figures


def curves(figure: matplotlib.figure.Figure) -> dict[str, tuple[list[float], list[float]]]:
    lines = [line for axes in figure.axes for line in axes.lines]
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in lines}


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("val/top1", ([1.0, 2.0], [0.5, 0.75])),
        ("train/loss", ([1.0, 1.0, 2.0, 2.0], [2.0, 1.0, 1.0, 0.5])),
        ("profile/step_ms", ([], [])),  # its rows have no epoch
        ("never/logged", ([], [])),
    ],
)
def test_a_column_is_read_without_its_gaps_at_the_epochs_ends(csv_file, name, column):
    assert read_column(csv_file, name) == column


def test_the_curves_are_the_columns_and_the_loss_the_epochs_mean(csv_file, drawn):
    draw_learning_curve(csv_file, csv_file.with_name("curve.png"), 0.97, "quickstart")
    (figure,) = drawn
    assert curves(figure) == {
        "val/top1": ([1, 2], [50, 75]),
        "target 97 %": ([0, 1], [97, 97]),  # from edge to edge
        "train/loss": ([1, 2], [1.5, 0.75]),
        "val/loss": ([1, 2], [1.0, 0.5]),
    }
    assert figure.axes[0].get_title() == "quickstart"
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "log"]


def test_the_picture_is_a_png_with_something_on_it(csv_file):
    draw_learning_curve(csv_file, csv_file.with_name("curve.png"), None, "quickstart")
    with Image.open(csv_file.with_name("curve.png")) as picture:
        assert picture.format == "PNG"
        blue = sum(count for count, colour in picture.convert("RGB").getcolors(1 << 20) if colour == (31, 119, 180))
    assert blue > 100


def test_without_a_target_there_is_no_line_for_it(csv_file, drawn):
    draw_learning_curve(csv_file, csv_file.with_name("curve.png"), None, "quickstart")
    assert sorted(curves(drawn[0])) == ["train/loss", "val/loss", "val/top1"]


def test_a_run_that_was_never_evaluated_is_drawn_too(tmp_path, drawn):
    (tmp_path / "metrics.csv").write_text("epoch,step,train/loss\n0,3,0.5\n")
    draw_learning_curve(tmp_path / "metrics.csv", tmp_path / "curve.png", 0.97, "quickstart")
    assert curves(drawn[0])["train/loss"] == ([1], [0.5])
    assert curves(drawn[0])["val/top1"] == ([], [])
