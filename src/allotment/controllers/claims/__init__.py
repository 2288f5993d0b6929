"""The life of a claim: created from a template, reserved, released, deallocated."""
