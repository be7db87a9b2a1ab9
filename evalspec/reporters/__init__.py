"""Reports: one file a form, each a function from a Run to text; importing this package registers them all."""

import evalspec.reporters.json_report  # noqa: F401
