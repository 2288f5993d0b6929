"""Which nodes can go, with their pods on other nodes or on cheaper machines."""
