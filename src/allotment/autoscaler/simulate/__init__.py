"""A cluster to try things on: forks, nodes and pods that come and go, who waits, what a drain would do."""
