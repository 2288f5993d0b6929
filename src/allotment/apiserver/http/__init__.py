"""From bytes to requests and back."""
