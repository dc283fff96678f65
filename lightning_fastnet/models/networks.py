"""Networks of the published runs that torchvision does not have."""

from torch import Tensor, nn

from lightning_fastnet.errors import UserError


class LeNet(nn.Sequential):
    """Caffe's LeNet for 28 x 28 grey digits, the network of the ISGD paper's MNIST runs.

    conv 20 5x5, max-pool 2, conv 50 5x5, max-pool 2, 500 hidden units, ``num_classes`` outputs; 431,080 parameters for 10 classes.

    Shapes:
        input ``(N, 1, 28, 28)``, output ``(N, num_classes)`` (logits).

    Raises:
        UserError: a picture of another shape.
    """

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__(
            nn.Conv2d(1, 20, 5),
            nn.MaxPool2d(2),
            nn.Conv2d(20, 50, 5),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(50 * 4 * 4, 500),
            nn.ReLU(),
            nn.Linear(500, num_classes),
        )

    def forward(self, input: Tensor) -> Tensor:
        if input.shape[1:] != (1, 28, 28):
            raise UserError(
                f"LeNet takes pictures of 1 x 28 x 28 (channels, height, width), these are {' x '.join(map(str, input.shape[1:]))}: "
                "set data.channels=1 and data.image_size=28."
            )
        output: Tensor = super().forward(input)  # type: ignore[no-untyped-call]
        return output
