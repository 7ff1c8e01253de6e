"""Run inside the environment: point the wheels' CMake files at this machine's header folders.

The message wheels name the Python and numpy headers of the machine they were built on, and CMake
refuses a package whose include folders do not exist.
"""

import re
import sys
import sysconfig
from pathlib import Path

_BUILDER_PYTHON = re.compile(r'/opt/python/[^;"]*/include/python3\.\d+')
_BUILDER_NUMPY = re.compile(r'/opt/python/[^;"]*/numpy/_core/include')


def mend(prefix: Path, python_include: str, numpy_include: str) -> int:
    """Rewrite the CMake files below ``prefix``; the number of files changed."""
    changed = 0
    for path in prefix.glob('share/*/cmake/export_*__rosidl_generator_pyExport.cmake'):
        text = path.read_text()
        mended = _BUILDER_PYTHON.sub(lambda _: python_include, text)
        mended = _BUILDER_NUMPY.sub(lambda _: numpy_include, mended)
        if mended != text:
            path.write_text(mended)
            changed += 1
    return changed


def main() -> None:
    import numpy

    count = mend(Path(sys.prefix), sysconfig.get_path('include'), numpy.get_include())
    print(f'header folders mended in {count} files')


if __name__ == '__main__':
    main()
