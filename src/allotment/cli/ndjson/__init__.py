"""The protocol for programs: one problem a line in, one answer a line out."""
