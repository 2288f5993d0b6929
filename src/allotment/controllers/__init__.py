"""What keeps the cluster as it is meant to be: one reconciler a file, each level-based and safe to repeat."""
