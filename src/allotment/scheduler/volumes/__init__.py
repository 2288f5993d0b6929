"""Volumes of pods: what they ask for, what there is, what fits, and what has to be written."""
