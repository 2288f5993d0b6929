"""Silent nodes, and the pods of deleted nodes."""
