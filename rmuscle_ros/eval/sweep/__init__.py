"""``rmuscle eval sweep``: one setting at a time around the defaults, and the Action Cache's rules.

Closed loop (``factors``, ``run``): success, latency and action error of every setting, paired with
dense. Without it (``variants``, ``reuse``): what denoise steps lose by each way to reuse others,
per unit of FFN work. May import what ``eval`` may.
"""
