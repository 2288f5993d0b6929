"""Deployments, ReplicaSets, Jobs and disruption budgets, where no kube-controller-manager runs."""
