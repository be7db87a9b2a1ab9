"""Reports: one file a form, each a function from a Run to text; importing this package registers them all."""

import evalspec.reporters.csv_report
import evalspec.reporters.html
import evalspec.reporters.json_report
import evalspec.reporters.jsonl_report
import evalspec.reporters.junit
import evalspec.reporters.markdown
import evalspec.reporters.parquet
import evalspec.reporters.sarif  # noqa: F401
