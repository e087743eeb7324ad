"""``python -m alphamf.training CONFIG``: train a network by its configuration file."""

import os

# One thread a process while mixtures are made side by side; steps have as many as --jobs says.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from alphamf.training.refiner.command import main  # noqa: E402

if __name__ == "__main__":
    main()
