"""The life of a claim: made from a template, reserved, released, deallocated."""
