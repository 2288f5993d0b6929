"""From a decision to a bound pod: writes one after another, and their undoing in reverse order."""
