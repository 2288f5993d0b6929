"""Configuration files, ours, Kubernetes' and Volcano's, and the profiles they come to."""
