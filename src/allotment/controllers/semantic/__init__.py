"""KEP-4381 semantic parameters (v1alpha2): vendor objects translated to parameters."""
