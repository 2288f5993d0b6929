"""How much is left of each pool, counted for everybody to read."""
