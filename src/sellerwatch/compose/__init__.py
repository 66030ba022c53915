"""The one place that picks adapters. Nothing is opened at import; tests pass their own parts by keyword."""
