"""Facts about a cluster: what the caller sees of it, what is wrong, what fits, and what would help."""
