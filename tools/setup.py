"""Set this checkout up, or find in under a second that it is: ``make setup`` runs this.

Standard library only, any Python from 3.10 on: it creates the environment, so it cannot need one.
"""

import sys

if sys.version_info < (3, 10):  # noqa: UP036 - run by whatever Python is there
    found = '.'.join(map(str, sys.version_info[:3]))
    sys.exit(f'{sys.executable} is Python {found}; tools/setup.py needs 3.10 or newer.')

from provision.cli import main

if __name__ == '__main__':
    sys.exit(main())
