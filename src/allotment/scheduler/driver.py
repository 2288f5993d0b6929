"""The scheduler's only module with I/O: informers feed events to the core, its instructions become API calls."""
