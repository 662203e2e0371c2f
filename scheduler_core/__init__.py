"""The scheduler's core, which webhook, plugins and sandbox use, too."""

import os

# numpy's BLAS starts a thread per core, which spins for a while, in each program that imports numpy.
# The products of this code are too small to be shared among threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
