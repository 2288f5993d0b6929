"""A Kubernetes API from the outside: requests, watches, informers; over HTTP, a pipe, or in process with the same code."""
