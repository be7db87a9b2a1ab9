"""What a report for people says, worded once: tables, lines and lists that each form only lays out."""
