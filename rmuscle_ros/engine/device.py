"""Resolve ``device`` and ``dtype`` settings, or say why that is impossible."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from rmuscle_ros.errors import ConfigError, SetupError

_DTYPES = {'float32': torch.float32, 'bfloat16': torch.bfloat16}
_BF16_CPU_FLAGS = ('avx512_bf16', 'amx_bf16')
_MOST_THREADS = 8


def resolve_device(setting: str) -> torch.device:
    """``auto`` takes CUDA when present; asking for a GPU that is not there is an error."""
    present = torch.cuda.is_available()
    if setting == 'cuda' and not present:
        raise SetupError(
            'engine.device: found no usable CUDA device, expected one; set engine.device to cpu '
            'or auto to run on the CPU'
        )
    return torch.device('cuda' if setting != 'cpu' and present else 'cpu')


def resolve_dtype(setting: str, device: torch.device) -> torch.dtype:
    """``auto`` is float32 on a CPU and bfloat16 on a GPU."""
    if setting == 'auto':
        return torch.bfloat16 if device.type == 'cuda' else torch.float32
    if setting == 'bfloat16' and device.type == 'cpu' and not cpu_has_bfloat16():
        raise ConfigError(
            'engine.dtype: bfloat16 on a CPU without AMX or AVX512-BF16 is hundreds of times '
            'slower than float32; set engine.dtype to float32 or auto'
        )
    return _DTYPES[setting]


def resolve_threads(setting: int) -> int:
    """0 takes all CPU cores but one, at most 8.

    The spare core is for cameras, controllers and DDS: OpenMP threads wait for each other by
    spinning, and where one of them has to share its core a call takes several times as long (on
    two busy cores 2 threads took 250 ms a call, 1 thread 87 ms).
    """
    if setting:
        return setting
    return max(1, min(_MOST_THREADS, len(os.sched_getaffinity(0)) - 1))


def cpu_has_bfloat16(cpuinfo: Path = Path('/proc/cpuinfo')) -> bool:
    """Whether this CPU multiplies bfloat16 matrices in hardware."""
    try:
        flags = cpuinfo.read_text().split()
    except OSError:
        return False
    return any(flag in flags for flag in _BF16_CPU_FLAGS)
