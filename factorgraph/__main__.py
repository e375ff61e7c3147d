"""`python -m factorgraph` is the command `factorgraph`."""

from factorgraph.cli import main

main()
