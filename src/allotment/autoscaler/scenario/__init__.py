"""What-if scenarios: read, run step by step on a simulation, and compared with what their authors expect."""
