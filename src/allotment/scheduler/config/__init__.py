"""Configuration files (ours, Kubernetes' and Volcano's) and the profiles that they define."""
