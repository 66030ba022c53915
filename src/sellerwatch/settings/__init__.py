"""What an installation can be told. Start with `model.Settings`; `load.load` reads it."""
