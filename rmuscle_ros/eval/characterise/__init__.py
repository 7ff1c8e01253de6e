"""``rmuscle eval characterise``: the paper's observations, measured on this policy.

``record`` runs dense episodes and keeps what the FFNs did, ``measure``, ``observations`` and
``similarity`` turn that into curves and numbers, ``flops`` counts the arithmetic; ``study`` joins
them into one result, which ``readings`` says in words, ``plots`` draws and ``page`` lays out.
"""
