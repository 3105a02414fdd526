"""Seam 2: engines as seen by the step loop, synchronously, on one thread. Knows no request, queue or event loop."""
