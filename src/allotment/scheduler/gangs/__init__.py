"""Pods that are placed together or not at all, and the queues whose shares they count against."""
