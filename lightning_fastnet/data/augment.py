"""How uniform numbers change a training picture: the maths that the DALI graphs and their torch twin share."""

import numpy as np
from numpy.typing import NDArray

JITTER_NUMBERS, PHOTO_NUMBERS = 4, 5

AUGMENTS = {"crop_flip": PHOTO_NUMBERS, "jitter": JITTER_NUMBERS, "none": 0}
"""What a data module can do with training pictures, and how many uniform numbers a picture it takes."""

LEAST_AREA, LARGEST_ASPECT = 0.08, 4 / 3


def crop_window(height: int, width: int, uniform: NDArray[np.float32]) -> tuple[int, int, int, int]:
    """The part of a photo that a training picture shows: an area of 8 % to 100 %, an aspect of 3/4 to 4/3 (log-uniform).

    A side that would be longer than the photo's is cut to it, so that a photo of any shape has a window at once; torchvision draws
    anew instead. In FP32, as :func:`~lightning_fastnet.data.pipelines.photos` computes it within DALI's graph.

    Args:
        height, width: of the photo, in pixels.
        uniform: four numbers in [0, 1): area, aspect, and where the window lies from left to right and from top to bottom; more
            are ignored.

    Returns:
        top, left, height and width of the window, in pixels; it lies within the photo and is 1 x 1 at least.
    """
    area, aspect, across, down = np.asarray(uniform, dtype=np.float32)[:4]
    high, wide, half = np.float32(height), np.float32(width), np.float32(0.5)
    pixels = high * wide * (np.float32(LEAST_AREA) + np.float32(1 - LEAST_AREA) * area)
    ratio = np.exp((aspect * np.float32(2) - np.float32(1)) * np.float32(np.log(LARGEST_ASPECT)))
    window_width = np.clip(np.floor(np.sqrt(pixels * ratio) + half), np.float32(1), wide)
    window_height = np.clip(np.floor(np.sqrt(pixels / ratio) + half), np.float32(1), high)
    # a number just below 1 can round up to one place too many
    left = np.minimum(np.floor(across * (wide - window_width + np.float32(1))), wide - window_width)
    top = np.minimum(np.floor(down * (high - window_height + np.float32(1))), high - window_height)
    return int(top), int(left), int(window_height), int(window_width)


def shorter_side(image_size: int) -> int:
    """To what an evaluation photo's shorter side is resized before its centre is cropped to ``image_size``, in pixels: 256 for 224."""
    return round(image_size * 256 / 224)
