"""The cheapest machines for a demand, as numbers, with a lower bound. This package knows nothing of Kubernetes."""
