"""Where the checkout is, for tests of files in it."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
