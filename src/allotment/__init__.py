"""Allotment: device allocation the way Kubernetes DRA does it, with reasons."""
