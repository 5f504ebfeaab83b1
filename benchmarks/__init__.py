"""Speed and memory, measured: asv classes, and `python -m benchmarks` to run them without asv."""
