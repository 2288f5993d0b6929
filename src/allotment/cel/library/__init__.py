"""Function libraries: one leaf module each, exporting ``LIBRARY``."""
