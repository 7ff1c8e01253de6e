"""The lines of the demo, on a terminal and in a file."""

import io

from rmuscle_ros.eval.records import CallRecord, EpisodeRecord
from rmuscle_ros.ros.demo.plan import PlannedEpisode
from rmuscle_ros.ros.demo.progress import Progress

PLANNED = PlannedEpisode('cached', 1, 101)


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def screen(self):
        """The lines as one sees them: a carriage return starts to overwrite."""
        lines = []
        for line in self.getvalue().split('\n'):
            shown = ''
            for part in line.split('\r'):
                shown = part + shown[len(part) :]
            lines.append(shown.rstrip())
        return lines


def record(**changes):
    calls = [CallRecord(call=i, time_s=0.5 * i, mode='cached', reason='CACHED') for i in range(3)]
    calls.append(CallRecord(call=3, time_s=2.0, mode='dense', reason='REFERENCE_NOT_READY'))
    return EpisodeRecord(kind='cached', index=1, seed=101, calls=calls, **changes)


def test_on_a_terminal_the_running_line_is_replaced_by_the_outcome():
    stream = Terminal()
    with Progress(9, stream) as progress:
        update = progress.episode(5, PLANNED)
        update(1.0, 2)
        update(2.0, 4)
        progress.finished(5, PLANNED, record(success=False))
    assert stream.screen() == [
        '[ 5/9] cached    scene 101      4 calls: 3 cached, 1 not ready; no success',
        '',
    ]


def test_an_error_line_does_not_mix_with_the_running_one():
    stream = Terminal()
    with Progress(9, stream) as progress:
        progress.episode(5, PLANNED)(1.0, 2)
        progress.line('[rmuscle] [ERROR] no camera')
    assert stream.screen() == ['[rmuscle] [ERROR] no camera', '']


def test_in_a_file_there_are_whole_lines_only():
    stream = io.StringIO()
    with Progress(9, stream) as progress:
        for second in range(1, 26):
            progress.waiting('the policy', float(second))
        progress.episode(5, PLANNED)(1.0, 2)
        progress.finished(5, PLANNED, record(success=True, admitted=False, note='spoiled'))
    assert stream.getvalue().splitlines() == [
        'still waiting for the policy, 10 s',
        'still waiting for the policy, 20 s',
        '[ 5/9] cached    scene 101      4 calls: 3 cached, 1 not ready; success, not recorded '
        '(spoiled)',
    ]
