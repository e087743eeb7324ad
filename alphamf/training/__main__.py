"""``python -m alphamf.training CONFIG``: train a network from its configuration file."""

import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the working directory, which may be a stranger's folder

from alphamf.tools.machine import VARIABLES

# One thread per process while mixtures are made in parallel; training steps use --jobs threads.
for name in VARIABLES:
    os.environ.setdefault(name, "1")

from alphamf.training.refiner.command import main  # noqa: E402

if __name__ == "__main__":
    main()
