"""The kinds of the API, and the checks that a write must pass before it is stored."""
