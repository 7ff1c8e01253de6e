import numpy as np
import pytest

from rmuscle_ros.errors import RecordError
from rmuscle_ros.eval.records import CallRecord, EpisodeRecord, Frame, JointTrace
from rmuscle_ros.types import Mode, Reason


def test_plain_strings_become_enums():
    call = CallRecord(call=3, time_s=0.5, mode='cached', reason='CACHED')
    assert (call.mode, call.reason, call.cached) == (Mode.CACHED, Reason.CACHED, True)


@pytest.mark.parametrize(
    'wrong', [{'mode': 'fast'}, {'reason': 'BORED'}, {'mode': 'CACHED'}], ids=str
)
def test_unknown_mode_or_reason_names_the_call_and_the_choices(wrong):
    values = {'mode': 'dense', 'reason': 'CACHED', **wrong}
    with pytest.raises(RecordError, match=r'call 7: .* expected one of') as caught:
        CallRecord(call=7, time_s=0.0, **values)
    assert next(iter(wrong.values())) in str(caught.value)


@pytest.mark.parametrize('value', [float('nan'), float('inf')])
def test_nan_is_refused_because_no_data_is_none(value):
    with pytest.raises(RecordError, match=r'similarity is .* or None for'):
        CallRecord(0, 0.0, 'dense', 'NO_REFERENCE', similarity=value)


def test_prefill_and_denoise_add_up_only_when_both_are_known():
    both = CallRecord(0, 0.0, 'dense', 'NO_REFERENCE', prefill_ms=40.0, denoise_ms=2.5)
    one = CallRecord(0, 0.0, 'dense', 'NO_REFERENCE', prefill_ms=40.0)
    assert both.prefill_denoise_ms == 42.5
    assert one.prefill_denoise_ms is None
    assert one.latency_ms['denoise'] is None


def test_trace_of_another_shape_is_refused():
    with pytest.raises(RecordError, match=r'measured: found shape \(3, 1\), expected .* \(3, 2\)'):
        JointTrace(np.arange(3.0), np.zeros((3, 2)), np.zeros((3, 1)), ('a', 'b'))


@pytest.mark.parametrize(
    'image',
    [np.zeros((4, 5, 3)), np.zeros((4, 5), np.uint8), np.zeros((3, 4, 5), np.uint8)],
    ids=['float', 'grey', 'channels first'],
)
def test_frame_takes_only_uint8_rgb(image):
    with pytest.raises(RecordError, match=r'cam_high .* expected uint8'):
        Frame(1.5, {'cam_high': image})


def test_unknown_kind_of_episode_is_refused():
    with pytest.raises(RecordError, match='expected one of reference, cached, dense'):
        EpisodeRecord('Dense', 0)
