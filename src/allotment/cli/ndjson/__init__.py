"""The protocol for programs: one problem per line in, one answer per line out."""
