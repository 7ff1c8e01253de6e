"""The caches: reference states, neuron masks, and the runners behind the FFN seam.

Model code calls ``ffn(site, x)`` and knows nothing of caches; prefill runs under
``DenseFfn``, ``ContextFfn`` or ``RecordFfn``, a denoise step under ``DenseFfn``, ``ActionFfn``,
``RecordMasks`` or ``RecordSteps``; steps that are skipped are the engine's sampler's. May import
models, nn, kernels and the leaves.
"""
