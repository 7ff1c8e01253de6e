"""The caches: reference states, neuron masks, and the runners behind the FFN seam.

Model code calls ``ffn(site, x)`` and knows nothing of caches; a call runs under one of four
runners: ``DenseFfn``, ``ContextFfn``, ``ActionFfn``, ``RecordFfn`` (in the denoise steps its twin
``RecordMasks``). May import models, nn, kernels and the leaves.
"""
