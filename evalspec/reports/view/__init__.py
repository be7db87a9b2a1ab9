"""The content of reports for people: tables, lines and lists. Each reporter only lays them out."""
