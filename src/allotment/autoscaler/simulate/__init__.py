"""A simulated cluster: forks, nodes and pods that come and go, waiting pods, and drains."""
