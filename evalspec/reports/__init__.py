"""Reports: one file a form, each a function from a Run to text or bytes. A `Reporter` in a module is found here."""
