"""Manifests: text with objects of any kinds, as people write them and kubectl prints them."""
