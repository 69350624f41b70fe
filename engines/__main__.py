"""`python -m engines run|compare|models`."""

import sys

from .cli import main

sys.exit(main())
