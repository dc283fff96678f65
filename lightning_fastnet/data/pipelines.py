"""DALI graphs: from paths and labels to normalised batches. Nothing else lives here."""

from typing import Any

from nvidia.dali import fn, types


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
    encoded = fn.io.file.read(path)
    output_type = types.GRAY if channels == 1 else types.RGB
    device = "mixed" if gpu else "cpu"
    # pixels as they are stored: torchvision's ImageFolder does not rotate by EXIF either
    picture = fn.decoders.image(encoded, device=device, output_type=output_type, adjust_orientation=False)
    picture = fn.resize(picture, size=[image_size, image_size], interp_type=types.INTERP_LINEAR, antialias=True)
    if uniform is not None:
        picture = fn.warp_affine(picture, matrix=_jitter(uniform, image_size), fill_value=0, interp_type=types.INTERP_LINEAR)
    picture = fn.crop_mirror_normalize(
        picture, dtype=types.FLOAT, output_layout="CHW", mean=[255 * value for value in mean], std=[255 * value for value in std]
    )
    return picture, label


def _jitter(uniform: Any, image_size: int) -> Any:
    signed = uniform * 2.0 - 1.0
    centre = [image_size / 2, image_size / 2]
    rotation = fn.transforms.rotation(angle=fn.squeeze(signed[0:1], axes=0) * 10.0, center=centre)
    scaled = fn.transforms.scale(rotation, scale=fn.cat(signed[1:2], signed[1:2]) * 0.1 + 1.0, center=centre)
    return fn.transforms.translation(scaled, offset=signed[2:4] * (image_size * 2 / 28))


JITTER_NUMBERS = 4
"""How many uniform numbers a picture :func:`small_pictures` takes for its jitter."""
