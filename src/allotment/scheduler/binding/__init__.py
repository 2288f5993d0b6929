"""From a decision to a bound pod: the writes in order, and their undo in reverse order."""
