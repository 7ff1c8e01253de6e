"""A reference call and a later call of nearly the same scene."""

import numpy as np
import pytest

from rmuscle_ros.cache.action import ActionPlan
from rmuscle_ros.engine.plans import CachedPlan, RecordPlan


class Call:
    """``observed`` is the call, ``dense`` its result; ``reference`` another of the scene."""

    def __init__(self, engine, make_inputs):
        self.engine, self.make_inputs = engine, make_inputs
        self.reference = make_inputs(0, 1)
        self.observed = engine.observe(make_inputs(0, 40))
        self.state = engine.expand(self.reference)
        self.noise = np.random.default_rng(5).normal(size=(7, 14)).astype(np.float32)
        self.dense = engine.run(self.observed, None, self.noise)

    def recorded(self, anchors, score='contribution', inputs=None):
        """Masks and velocities of the reference (or ``inputs``) under the call's noise."""
        observed = self.engine.observe(inputs or self.reference)
        return self.engine.run(observed, RecordPlan(anchors, score), self.noise).recorded

    def action(self, anchors, rho_n, unselected='hold', source='reference', score='delta'):
        """A plan with all that it needs of the reference."""
        states = self.engine.expand(self.reference, noise=self.noise)
        return ActionPlan(
            anchors,
            rho_n,
            unselected,
            source,
            score,
            masks=None if source == 'anchor' else self.recorded(anchors, score).masks,
            steps_ref=states.steps if unselected == 'reference' else None,
        )

    def cached(self, rho_p, action=None, states=None, **plan):
        plan = CachedPlan(states or (self.state,), rho_p, action, **plan)
        return self.engine.run(self.observed, plan, self.noise)


@pytest.fixture
def call(engine, make_inputs):
    return Call(engine, make_inputs)
