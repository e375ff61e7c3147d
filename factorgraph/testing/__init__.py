"""Hold a law to its physics: units, bounds, gradients, monotonicity, and the ways a JAX function may be run.

Needs Hypothesis (the extra `testing`); nothing else of the package does.
"""

from factorgraph.testing.checks import CHECKS
from factorgraph.testing.judging import LawError, Verdict, check_law, judge
from factorgraph.testing.loading import load_law
from factorgraph.testing.strategies import values_for

__all__ = ["CHECKS", "LawError", "Verdict", "check_law", "judge", "load_law", "values_for"]
