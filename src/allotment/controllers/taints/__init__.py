"""Pods leave tainted devices and nodes, at once or when their toleration ends."""
