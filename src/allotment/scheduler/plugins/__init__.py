"""One concern a file: what a pod needs of a node, or likes about it."""
