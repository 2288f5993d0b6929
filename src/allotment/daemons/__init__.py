"""Long-running programs, put together: components, their processes, metrics, and the embedded control plane."""
