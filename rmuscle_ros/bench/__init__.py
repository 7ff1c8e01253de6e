"""Timings, always dense and cached side by side in one run."""
