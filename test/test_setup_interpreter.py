"""Choosing a Python by running it: shims that point at nothing are passed over."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from provision import interpreter
from provision.report import StepError


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., str]:
    """Makes a folder of fake interpreters: a version, and optionally what it lacks."""

    def _folder(name: str, **pythons: str) -> str:
        path = tmp_path / name
        path.mkdir()
        for command, spec in pythons.items():
            version, *lacks = spec.split()
            answer = {
                'path': str(path / command),
                'version': version,
                'include': '/include',
                'headers': 'headers' not in lacks,
                'ensurepip': 'ensurepip' not in lacks,
                'rclpy': None,
                'provides': [],
            }
            text = f"echo '{json.dumps(answer)}'" if version != 'broken' else 'exit 127'
            (path / command).write_text(f'#!/bin/sh\n{text}\n')
            (path / command).chmod(0o755)
        return str(path)

    return _folder


def test_3_11_is_preferred_wherever_it_stands_in_the_path(folder) -> None:
    path = os.pathsep.join(
        [folder('a', **{'python3.12': '3.12.3'}), folder('b', python3='3.11.2')]
    )
    assert interpreter.choose(None, path).version == '3.11.2'


def test_a_broken_shim_is_passed_over(folder) -> None:
    shims = folder('shims', **{'python3.11': 'broken', 'python3.12': 'broken'})
    path = os.pathsep.join([shims, folder('usr', **{'python3.12': '3.12.3'})])
    assert interpreter.choose(None, path).version == '3.12.3'


def test_a_complete_3_12_beats_a_3_11_without_headers(folder) -> None:
    path = folder('a', **{'python3.11': '3.11.2 headers', 'python3.12': '3.12.3'})
    assert interpreter.choose(None, path).version == '3.12.3'


def test_a_python_outside_the_distribution_that_lacks_headers_is_named(folder) -> None:
    path = folder('a', **{'python3.11': '3.11.2 headers'})
    with pytest.raises(StepError, match=r'python3.11 .* lacks its C headers'):
        interpreter.choose(None, path)


def test_without_any_supported_python_the_error_says_how_to_get_one(folder) -> None:
    with pytest.raises(StepError) as caught:
        interpreter.choose(None, folder('a', python3='3.13.0'))
    assert 'apt-get install python3 python3-venv' in caught.value.todo


@pytest.mark.parametrize(
    ('spec', 'why'),
    [('broken', 'does not run'), ('3.13.0', 'is 3.13.0, and the pinned versions')],
    ids=['broken', 'too new'],
)
def test_a_wish_that_cannot_be_met_is_refused(folder, spec: str, why: str) -> None:
    path = folder('a', mine=spec)
    with pytest.raises(StepError, match=why):
        interpreter.choose(f'{path}/mine', path)


def test_a_wish_is_met(folder) -> None:
    path = folder('a', **{'python3.11': '3.11.2', 'python3.12': '3.12.3'})
    assert interpreter.choose('python3.12', path).version == '3.12.3'


def test_folders_that_may_not_be_read_are_passed_over(monkeypatch, folder) -> None:
    good = folder('a', **{'python3.11': '3.11.2'})
    assert list(interpreter.on_path('python3.11', f'/root/none{os.pathsep}{good}')) == [
        f'{good}/python3.11'
    ]


def test_the_probe_describes_a_real_python() -> None:
    found = interpreter.probe(sys.executable)
    assert found is not None
    assert found.release == sys.version_info[:2]
    assert 'numpy' in found.provides
