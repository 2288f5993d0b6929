"""Devices for pods: which claims a pod needs, what nodes can give, and what is already promised."""
