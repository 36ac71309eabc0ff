"""Which kinds and fields there are, also in Kubernetes' own encoding."""
