"""One module per vocabulary of attributes. docs/reference/trace-vocabularies.md has their names and sources."""
