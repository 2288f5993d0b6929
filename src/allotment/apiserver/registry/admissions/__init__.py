"""Checks of a write that need more than the object itself, one file for each concern."""
