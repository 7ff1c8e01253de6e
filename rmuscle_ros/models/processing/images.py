"""Picture resizing, as the training data was resized."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F


def resize_with_padding(image: np.ndarray, size: int) -> np.ndarray:
    """uint8 [H, W, 3] -> uint8 [size, size, 3]: antialiased, aspect kept, centred on black."""
    height, width = image.shape[:2]
    if (height, width) == (size, size):
        return image
    scale = size / max(height, width)
    shape = (max(1, round(height * scale)), max(1, round(width * scale)))
    pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None].float()
    small = F.interpolate(pixels, shape, mode='bilinear', antialias=True, align_corners=False)
    out = np.zeros((size, size, 3), np.uint8)
    top, left = (size - shape[0]) // 2, (size - shape[1]) // 2
    picture = small[0].permute(1, 2, 0).round().clamp(0, 255).byte().numpy()
    out[top : top + shape[0], left : left + shape[1]] = picture
    return out
