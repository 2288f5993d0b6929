"""What kinds there are and what a write must pass before it is stored."""
