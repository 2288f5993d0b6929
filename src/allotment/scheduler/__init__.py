"""Which pod goes to which node with which devices: queue, cycle, plugins, gang sessions. Events in, instructions out."""
