"""StopBench: what every stopping rule gives up, and what it saves, on the same recorded runs; docs/stopbench.md."""
