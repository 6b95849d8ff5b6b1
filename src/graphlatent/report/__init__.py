"""Run folders made readable: charts, maps and pages."""
