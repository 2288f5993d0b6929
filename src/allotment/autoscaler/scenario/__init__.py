"""What-if scenarios: read, simulated step by step, and compared with their authors' expectations."""
