"""The service: evaluations by REST over the runs of projects. Only `evalspec serve`, `worker` and `token` import it."""
