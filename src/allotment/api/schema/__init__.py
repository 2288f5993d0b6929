"""Schemas of every kind: fields, types and merge behaviour, and how to bring a decoded body into their form."""
