"""A client of a Kubernetes API: requests, watches, informers; over HTTP, a pipe, or in process, with the same code."""
