"""Nodes that fall silent, and the pods of nodes that are gone."""
