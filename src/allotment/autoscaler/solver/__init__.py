"""The cheapest machines for a demand, as numbers, with a lower bound. It knows nothing of Kubernetes."""
