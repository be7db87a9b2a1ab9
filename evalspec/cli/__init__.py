"""The command line: one file a command, one place where errors become exit codes."""
