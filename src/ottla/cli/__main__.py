"""`python -m ottla.cli` is the `ottla` command."""

import sys

from ottla.cli import main

sys.exit(main())
