"""Compare runs, test whether the differences exceed noise, and decide the regression gate."""
