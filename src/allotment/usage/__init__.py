"""Who holds what, how much is left, how many more fit."""
