"""The scheduler's process."""

import os

# Our arrays are columns: the threads that numpy starts for large matrices only cost processor time, 0.1 s.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
