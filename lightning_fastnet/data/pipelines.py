"""DALI graphs: from paths and labels to normalised batches. Nothing else lives here."""

from math import log
from typing import Any

from nvidia.dali import fn, math, types

from lightning_fastnet.data.augment import LARGEST_ASPECT, LEAST_AREA, shorter_side


def small_pictures(
    path: Any,
    label: Any,
    uniform: Any = None,
    *,
    image_size: int,
    channels: int,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    gpu: bool,
) -> tuple[Any, Any]:
    """Whole small pictures (digits, CIFAR): decode, bring to ``image_size``, jitter if told, normalise.

    Jitter is an affine map about the centre: up to 10 degrees, 10 % in size, 2 pixels of 28 either way.

    Args:
        path, label: one picture's path as bytes, and its class.
        uniform: 4 uniform numbers a picture that choose its jitter; None: no jitter.
        channels: 1 (grey) or 3 (RGB).
        mean, std: of pixels in 0 to 1, one a channel.
        gpu: decode and work on the GPU.

    Returns:
        FP32 pictures, each ``(channels, image_size, image_size)``, and labels.
    """
    # pixels as they are stored: torchvision's ImageFolder does not rotate by EXIF either
    picture = fn.decoders.image(fn.io.file.read(path), adjust_orientation=False, **_decoder(channels, gpu))
    picture = fn.resize(picture, size=[image_size, image_size], interp_type=types.INTERP_LINEAR, antialias=True)
    if uniform is not None:
        picture = fn.warp_affine(picture, matrix=_jitter(uniform, image_size), fill_value=0, interp_type=types.INTERP_LINEAR)
    return _normalised(picture, mean, std), label


def photos(
    path: Any,
    label: Any,
    uniform: Any = None,
    *,
    image_size: int,
    channels: int,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    gpu: bool,
) -> tuple[Any, Any]:
    """Photos as ImageNet's are read. To train: a random window (:func:`~lightning_fastnet.data.augment.crop_window`), resized, flipped
    half of the time. To evaluate: the shorter side resized to 256/224 of ``image_size``, then the centre.

    Args:
        path, label: one picture's path as bytes, and its class.
        uniform: 5 uniform numbers a picture: its window's four, and below 1/2 it is flipped; None: to evaluate.
        channels: 1 (grey) or 3 (RGB).
        mean, std: of pixels in 0 to 1, one a channel.
        gpu: decode and work on the GPU.

    Returns:
        FP32 pictures, each ``(channels, image_size, image_size)``, and labels.
    """
    encoded = fn.io.file.read(path)
    shape = fn.peek_image_shape(encoded, adjust_orientation=False)
    how = {"size": [image_size, image_size], "interp_type": types.INTERP_LINEAR, "antialias": True}
    if uniform is None:
        picture = fn.decoders.image(encoded, adjust_orientation=False, **_decoder(channels, gpu))
        start, end = _centre(shape, image_size)
        return _normalised(fn.resize(picture, roi_start=start, roi_end=end, **how), mean, std), label
    start, size = _window(shape, uniform)
    # only the window is decoded: a JPEG's lines below it are not even read
    picture = fn.decoders.image_slice(encoded, start, size, axes=[0, 1], adjust_orientation=False, **_decoder(channels, gpu))
    flip = fn.cast(_number(uniform, 4) < 0.5, dtype=types.INT32)
    return _normalised(fn.resize(picture, **how), mean, std, mirror=flip), label


def _decoder(channels: int, gpu: bool) -> dict[str, Any]:
    return {"device": "mixed" if gpu else "cpu", "output_type": types.GRAY if channels == 1 else types.RGB}


def _normalised(picture: Any, mean: tuple[float, ...], std: tuple[float, ...], **settings: Any) -> Any:
    scaled: dict[str, Any] = {"mean": [255 * value for value in mean], "std": [255 * value for value in std]}
    return fn.crop_mirror_normalize(picture, dtype=types.FLOAT, output_layout="CHW", **scaled, **settings)


def _number(row: Any, place: int) -> Any:
    return fn.squeeze(row[place : place + 1], axes=0)


def _window(shape: Any, uniform: Any) -> tuple[Any, Any]:
    """Start and size of a training window, (down, across) in pixels: ``crop_window``, line by line."""
    area, aspect, across, down = (_number(uniform, place) for place in range(4))
    high, wide = fn.cast(shape[0], dtype=types.FLOAT), fn.cast(shape[1], dtype=types.FLOAT)
    pixels = high * wide * (LEAST_AREA + (1 - LEAST_AREA) * area)
    ratio = math.exp((aspect * 2.0 - 1.0) * log(LARGEST_ASPECT))
    window_width = math.clamp(math.floor(math.sqrt(pixels * ratio) + 0.5), 1.0, wide)
    window_height = math.clamp(math.floor(math.sqrt(pixels / ratio) + 0.5), 1.0, high)
    left = math.min(math.floor(across * (wide - window_width + 1.0)), wide - window_width)
    top = math.min(math.floor(down * (high - window_height + 1.0)), high - window_height)
    return fn.cast(fn.stack(top, left), dtype=types.INT64), fn.cast(fn.stack(window_height, window_width), dtype=types.INT64)


def _centre(shape: Any, image_size: int) -> tuple[Any, Any]:
    """Start and end of an evaluation picture's part of the photo, (down, across) in its pixels.

    Resizing this part is resizing the whole photo and cropping, whose result would be huge for a photo one pixel wide. Whole numbers
    round as torchvision's ``Resize`` and ``CenterCrop`` do: a long side down, a half offset to the even one.
    """
    sides = shape[0:2]
    resized = sides * shorter_side(image_size) // math.min(shape[0], shape[1])
    spare = resized - image_size
    half = spare // 2
    offset = half + (spare - 2 * half) * (half - half // 2 * 2)
    scale = fn.cast(sides, dtype=types.FLOAT) / fn.cast(resized, dtype=types.FLOAT)
    return fn.cast(offset, dtype=types.FLOAT) * scale, fn.cast(offset + image_size, dtype=types.FLOAT) * scale


def _jitter(uniform: Any, image_size: int) -> Any:
    signed = uniform * 2.0 - 1.0
    centre = [image_size / 2, image_size / 2]
    rotation = fn.transforms.rotation(angle=fn.squeeze(signed[0:1], axes=0) * 10.0, center=centre)
    scaled = fn.transforms.scale(rotation, scale=fn.cat(signed[1:2], signed[1:2]) * 0.1 + 1.0, center=centre)
    return fn.transforms.translation(scaled, offset=signed[2:4] * (image_size * 2 / 28))
