"""The machines that can be launched: instance types, pools, overlays, and the nodes that they would become."""
