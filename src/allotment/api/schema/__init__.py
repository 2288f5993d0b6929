"""Schemas of every kind: fields, types and merge behaviour, and what a decoded body becomes by them."""
