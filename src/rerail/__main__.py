"""`python -m rerail` is `rerail`."""

import sys

from rerail.cli import main

sys.exit(main())
