"""The kinds that the server stores, one file a kind or a family of kinds; each defines ``RESOURCES``."""
