"""What a controller needs whatever it does: lease, clocks, threads, logs, metrics, probes."""
