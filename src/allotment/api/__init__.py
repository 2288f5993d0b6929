"""Objects as data: what users, drivers and the control plane write down, and nothing of what we do with it."""
