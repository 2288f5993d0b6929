"""What if: a forkable cluster, overlays, provisioning."""
