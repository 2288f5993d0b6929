"""What can be said about a cluster: what is seen of it, what is wrong, what fits, what would help."""
