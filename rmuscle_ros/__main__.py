"""``python -m rmuscle_ros`` is ``rmuscle``."""

import sys

from rmuscle_ros.cli import main

if __name__ == '__main__':
    sys.exit(main())
