"""Speed and memory, each beside a yardstick measured in the same run. `python -m benchmarks` prints the table."""
