"""Networks of the published runs that torchvision does not have."""

from torch import nn


class LeNet(nn.Sequential):
    """Caffe's LeNet for 28 x 28 grey digits, the network of the ISGD paper's MNIST runs.

    conv 20 5x5, max-pool 2, conv 50 5x5, max-pool 2, 500 hidden units, ``num_classes`` outputs; 431,080 parameters for 10 classes.

    Shapes:
        input ``(N, 1, 28, 28)``, output ``(N, num_classes)`` (logits).
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
