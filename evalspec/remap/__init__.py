"""Ground truth carried from the chunks of an old corpus to those of a new one."""
