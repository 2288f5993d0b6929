"""A Kubernetes API from the outside: requests, watches, informers; over HTTP or in process with the same code."""
