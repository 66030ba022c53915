"""The settings of an installation. Start with `model.Settings`; `load.load` reads it."""
