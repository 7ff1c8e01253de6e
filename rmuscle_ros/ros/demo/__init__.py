"""``rmuscle demo``: station and node as processes, episodes dense and cached, a report."""
