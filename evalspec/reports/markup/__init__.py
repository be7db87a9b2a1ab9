"""How a view, a run and a sample look as HTML. The HTML report and the pages of the service show the same elements."""
