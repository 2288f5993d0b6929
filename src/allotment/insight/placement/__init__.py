"""Where the pods of manifests would go, without a server."""
