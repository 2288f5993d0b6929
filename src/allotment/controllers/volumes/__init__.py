"""Volumes on the embedded server: what kube-controller-manager and a provisioner do elsewhere."""
