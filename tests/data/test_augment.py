"""A crop's window is the one its numbers say, on a photo of any shape."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_fastnet.data.augment import crop_window, shorter_side

no_clock = settings(deadline=None, max_examples=300)
sides = st.integers(1, 5000)
numbers = st.lists(st.floats(0, 1 - 2**-24, width=32), min_size=4, max_size=5)


def window(height: int, width: int, *uniform: float) -> tuple[int, int, int, int]:
    return crop_window(height, width, np.array(uniform, dtype=np.float32))


@no_clock
@given(sides, sides, numbers)
def test_a_window_lies_within_the_photo(height, width, uniform):
    top, left, high, wide = window(height, width, *uniform)
    assert 0 <= top < top + high <= height
    assert 0 <= left < left + wide <= width


@no_clock
@given(st.integers(200, 5000), numbers)
def test_a_window_has_the_area_and_the_aspect_that_its_numbers_say(side, uniform):
    """In Python's own numbers, on a photo whose sides cut nothing."""
    share, aspect = 0.08 + 0.92 * uniform[0], (3 / 4) * (16 / 9) ** uniform[1]
    wide, high = side * math.sqrt(share * aspect), side * math.sqrt(share / aspect)
    _, _, got_high, got_wide = window(side, side, *uniform)
    assert got_wide == pytest.approx(min(wide, side), abs=0.51)
    assert got_high == pytest.approx(min(high, side), abs=0.51)


def test_the_third_number_moves_it_across_and_the_fourth_down():
    last = 1 - 2**-24
    top, left, high, wide = window(300, 400, 0.1, 0.5, 0, 0)
    assert (top, left) == (0, 0)
    assert window(300, 400, 0.1, 0.5, last, 0) == (0, 400 - wide, high, wide)
    assert window(300, 400, 0.1, 0.5, 0, last) == (300 - high, 0, high, wide)


def test_windows_are_as_likely_at_every_place():
    places = [window(10, 10, 0, 0.5, number, 0)[1] for number in np.linspace(0, 1, 8000, endpoint=False)]
    counts = np.bincount(places)  # 3 pixels of 10: 8 places
    assert counts.tolist() == pytest.approx([1000] * 8, abs=1)


def test_the_whole_photo_is_the_largest_window_of_a_square():
    assert window(77, 77, 1 - 2**-24, 0.5, 0.3, 0.3) == (0, 0, 77, 77)


@pytest.mark.parametrize(("image_size", "side"), [(224, 256), (28, 32), (299, 342), (1, 1)])
def test_evaluation_keeps_seven_eighths(image_size, side):
    assert shorter_side(image_size) == side
