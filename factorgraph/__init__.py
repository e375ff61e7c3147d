"""Predict how long one LLM-inference step takes on a GPU that nobody has profiled, and say why."""
