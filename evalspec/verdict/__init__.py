"""What scores say together: statistics, validity, summaries, the gate, comparisons with a baseline."""
