"""Volumes on the embedded server: the work of kube-controller-manager and of a provisioner."""
