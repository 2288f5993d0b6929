"""Controllers bring the cluster to its desired state: one reconciler per file, each level-based and safe to repeat."""
