"""The engine that scheduler, webhook and plugin share."""

import os

# Our arrays are columns; what numpy starts for large matrices costs 0.1 s of processor time at every start.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
