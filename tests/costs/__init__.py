"""What the most expensive request of each kind costs: `python -m tests.costs`."""
