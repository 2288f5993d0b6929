"""Scheduler plugins, one per file. Each covers one thing that a pod requires of a node or prefers."""
