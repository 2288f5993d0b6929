"""The kinds that the server stores, one file for each kind or family of kinds; each defines ``RESOURCES``."""
