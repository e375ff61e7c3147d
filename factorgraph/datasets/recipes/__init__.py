"""Recipes: how each bundled dataset is built from its source, one file each, with a function `build() -> Imported`."""
