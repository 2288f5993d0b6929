"""Volumes of pods: what pods ask for, which volumes exist, which fit, and what must be written."""
