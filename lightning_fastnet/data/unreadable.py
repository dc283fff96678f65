"""The sentence that names a picture which cannot be read: decoders' own errors name none."""

import os

from lightning_fastnet.errors import UserError


def unreadable(name: str, reason: str) -> UserError:
    """The error for one picture.

    Args:
        name: its path, or whatever names it.
        reason: the decoder's; what the file itself shows goes before it.
    """
    if name != os.path.abspath(name):  # not a file
        found = ""
    elif not os.path.exists(name):
        found = "there is no such file"
    elif not os.path.getsize(name):
        found = "the file is empty"
    else:
        found = "" if os.access(name, os.R_OK) else "reading it is not permitted"
    return UserError(f"{name} cannot be read as a picture ({found or reason}): remove or replace it.")


def reason_of_dali(message: str) -> str:
    """What DALI's error says about one sample, in a few words."""
    if "nvImageCodec failure: '#4'" in message:  # NVIMGCODEC_STATUS_CODESTREAM_UNSUPPORTED
        return "it is no picture of a known kind"
    if "nvImageCodec failure: '#3'" in message or "Failed to decode" in message:
        return "damaged, cut off, or of a kind that DALI does not decode"
    lines = [line.strip() for line in message.partition("encountered:")[2].splitlines() if line.strip()]
    return lines[0].rstrip(".:") if lines else "DALI gives no reason"


def reason_of_pil(error: Exception) -> str:
    """What PIL's error says, in a few words."""
    if type(error).__name__ == "UnidentifiedImageError":  # its own words hold the path
        return "it is no picture of a known kind"
    return str(error).partition("\n")[0].rstrip(".") or type(error).__name__
