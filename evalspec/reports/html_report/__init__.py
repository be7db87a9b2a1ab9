"""The HTML report and its data: the overview, the columns of the sample tables, and the texts of the samples."""
