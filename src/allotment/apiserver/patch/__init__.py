"""The four ways to change an object in part, as pure functions on JSON values."""
