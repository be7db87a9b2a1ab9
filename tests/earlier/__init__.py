"""Files as evalspec once wrote them, and the program that wrote them."""
