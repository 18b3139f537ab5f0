"""``python -m square`` is ``square``."""

import sys

from square.cli import main

sys.exit(main())
