"""What is stored, at which revision, and what changed since."""
