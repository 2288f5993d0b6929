"""Which nodes can be removed, if their pods move to other nodes or to cheaper machines."""
