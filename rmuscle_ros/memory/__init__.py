"""Reference episodes: the library, retrieval, the sliding window and the rebuild thread.

Gets what an engine does (``expand``, ``compare``, ``dense_actions``) injected and knows
none. May import cache and the leaves.
"""
