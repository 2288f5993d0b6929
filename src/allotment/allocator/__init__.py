"""Which devices satisfy these claims on this node; if none, why not."""
