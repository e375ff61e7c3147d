"""One physical law a file. Each is a [`Factor`][factorgraph.factor.Factor] with few shared, sourced constants."""
