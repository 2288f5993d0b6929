"""Where the pods of manifests would be placed, computed without a server."""
