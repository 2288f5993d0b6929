"""What-if simulations: a forkable cluster, a catalogue of machines with overlays, provisioning and consolidation."""
