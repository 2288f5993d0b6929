"""Finds devices that satisfy claims on a node, or the reasons why none do."""
