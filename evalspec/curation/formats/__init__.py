"""Dataset formats that read what people curate."""
