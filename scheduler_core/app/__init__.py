"""The scheduler's process."""

import os

# The arrays are columns. The threads that numpy starts for large matrices would only cost 0.1 s of processor
# time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
