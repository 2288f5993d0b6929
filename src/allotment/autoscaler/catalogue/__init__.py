"""Which machines can be had: instance types, pools, overlays, and the nodes they would become."""
