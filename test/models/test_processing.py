import numpy as np
import pytest

from rmuscle_ros.models.processing.images import resize_with_padding


def test_the_right_size_passes_untouched():
    image = np.random.default_rng(0).integers(0, 256, (36, 36, 3)).astype(np.uint8)
    assert resize_with_padding(image, 36) is image


@pytest.mark.parametrize('shape', [(480, 640), (640, 480), (20, 31)])
def test_aspect_is_kept_and_the_rest_is_black(shape):
    image = np.full((*shape, 3), 200, np.uint8)
    out = resize_with_padding(image, 32)
    assert out.shape == (32, 32, 3)
    filled = (out == 200).all(-1)
    rows, columns = filled.any(1).sum(), filled.any(0).sum()
    assert rows / columns == pytest.approx(shape[0] / shape[1], rel=0.05)
    assert (out[~filled] == 0).all()


def test_downscaling_averages_instead_of_dropping_pixels():
    stripes = np.zeros((96, 96, 3), np.uint8)
    stripes[:, ::2] = 255
    out = resize_with_padding(stripes, 24)
    assert np.abs(out.astype(int) - 127).max() < 30
