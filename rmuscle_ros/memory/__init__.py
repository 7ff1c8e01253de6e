"""Reference episodes: the library, retrieval, the sliding window and the rebuild thread.

Gets an injected ``expand`` function and knows no engine. May import cache and the leaves.
"""
