"""Pages of the service for browsers, rendered on the server. They work without JavaScript."""
