"""The plan as it is shown: table, drawing, page, and JSON for programs."""
