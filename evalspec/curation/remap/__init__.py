"""Carry ground truth from the chunks of an old corpus over to those of a re-chunked one."""
