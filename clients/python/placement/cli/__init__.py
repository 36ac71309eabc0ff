"""The command `placementctl`: files of Kubernetes objects in, a plan out."""
