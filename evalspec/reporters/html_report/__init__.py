"""What the HTML page holds, as data: its overview, the columns of its table, the texts of its samples."""
