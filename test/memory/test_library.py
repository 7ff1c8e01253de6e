import argparse
import dataclasses
import json
import re

import numpy as np
import pytest
from safetensors.numpy import save_file

from rmuscle_ros.cache.states import NeuronMasks
from rmuscle_ros.errors import LibraryError
from rmuscle_ros.memory import listing
from rmuscle_ros.memory.entry import Entry, Episode, TaskKey
from rmuscle_ros.memory.library import SUFFIX, Library, read_episode, write_episode
from rmuscle_ros.types import ACTION, ModelInputs, Site

TASK = TaskKey('stack the cups', 'f00d-float32', ('cam_a', 'cam_b'))


def episode(name, task=TASK, length=3, anchors=(0, 3, 4)):
    rng = np.random.default_rng(len(name))
    sites = (Site(ACTION, 0), Site(ACTION, 1))
    entries = tuple(
        Entry(
            name,
            i,
            ModelInputs(
                rng.integers(0, 256, (2, 5, 5, 3)).astype(np.uint8),
                task.cameras,
                rng.normal(size=3).astype(np.float32),
                task.instruction,
            ),
            rng.normal(size=8).astype(np.float32),
            NeuronMasks(
                rng.integers(0, 16, (3, 2, 9)).astype(np.uint8), sites, anchors, 7, 'delta'
            ),
            rng.normal(size=(4, 3)).astype(np.float32),
            rng.normal(size=(4, 3)).astype(np.float32),
            rng.normal(size=(7, 4, 3)).astype(np.float16),
        )
        for i in range(length)
    )
    return Episode(name, task, True, entries)


def assert_same(a, b):
    if dataclasses.is_dataclass(a):
        assert type(a) is type(b)
        for item in dataclasses.fields(a):
            assert_same(getattr(a, item.name), getattr(b, item.name))
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and np.array_equal(a, b)
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    else:
        assert a == b


def test_saving_and_loading_keeps_everything(tmp_path):
    library = Library()
    library.add(episode('one'))
    library.add(episode('two', length=5))
    assert library.save(tmp_path / 'new') == 2
    loaded = Library.load(tmp_path / 'new')
    assert_same(tuple(library), tuple(loaded))
    assert loaded.entries == 8
    first = next(iter(loaded)).entries[0]
    assert (first.masks.anchors, first.masks.steps) == ((0, 3, 4), 7)
    assert first.velocity.dtype == np.float16 and first.velocity.shape == (7, 4, 3)


def test_only_new_episodes_are_written(tmp_path):
    library = Library()
    library.add(episode('one'))
    library.save(tmp_path)
    library.add(episode('two'))
    assert library.save(tmp_path) == 1
    assert not list(tmp_path.glob('.*partial'))


def test_a_directory_that_does_not_exist_is_an_empty_library(tmp_path):
    assert len(Library.load(tmp_path / 'none')) == 0


@pytest.mark.parametrize(
    'other',
    [
        dataclasses.replace(TASK, instruction='stack the cups.'),
        dataclasses.replace(TASK, fingerprint='f00d-bfloat16'),
        dataclasses.replace(TASK, cameras=('cam_a',)),
    ],
    ids=['instruction', 'model', 'cameras'],
)
def test_episodes_of_another_task_are_never_offered(other):
    library = Library()
    library.add(episode('one'))
    library.add(episode('other', other))
    assert [e.id for e in library.of_task(TASK)] == ['one']


def test_duplicates_and_empty_episodes_are_refused():
    library = Library()
    library.add(episode('one'))
    with pytest.raises(LibraryError, match='already'):
        library.add(episode('one'))
    with pytest.raises(LibraryError, match='no entries'):
        library.add(episode('empty', length=0))


@pytest.mark.parametrize('damage', ['truncated', 'flipped', 'foreign'])
def test_a_damaged_file_is_named_and_kept(tmp_path, damage):
    library = Library()
    library.add(episode('one'))
    library.save(tmp_path)
    path = tmp_path / f'one{SUFFIX}'
    data = bytearray(path.read_bytes())
    if damage == 'truncated':
        data = data[:-20]
    elif damage == 'flipped':
        data[-5] ^= 1
    else:
        data = bytearray(b'not a safetensors file')
    path.write_bytes(data)
    with pytest.raises(LibraryError, match=f'one{SUFFIX}'):
        Library.load(tmp_path)
    assert path.read_bytes() == bytes(data)


def test_a_file_of_format_1_is_refused_with_what_to_do(tmp_path):
    path = tmp_path / f'one{SUFFIX}'
    header = {'format': 1, 'id': 'one', 'group_len': 5}
    metadata = {'rmuscle_episode': json.dumps(header)}
    save_file({'images': np.zeros((1, 2, 5, 5, 3), np.uint8)}, path, metadata=metadata)
    expected = f'{path}: found format 1, this version reads 2; record the episode again and move '
    with pytest.raises(LibraryError, match=re.escape(expected)):
        Library.load(tmp_path)
    assert path.exists()


def test_an_episode_recorded_again_takes_its_place():
    library = Library()
    for name in ('one', 'two', 'three'):
        library.add(episode(name))
    library.replace(episode('two', length=5, anchors=(0, 1)))
    assert [(e.id, len(e.entries)) for e in library] == [('one', 3), ('two', 5), ('three', 3)]
    with pytest.raises(LibraryError, match='episode four is not in the library; add it'):
        library.replace(episode('four'))


def test_a_file_in_place_of_the_directory_is_an_error(tmp_path):
    path = tmp_path / 'library'
    path.write_text('')
    with pytest.raises(LibraryError, match='expected a directory'):
        Library.load(path)


def test_show_lists_every_episode(tmp_path, capsys):
    library = Library()
    library.add(episode('one'))
    library.add(episode('two', length=5))
    library.save(tmp_path / 'library')
    parser = argparse.ArgumentParser()
    listing.add_arguments(parser)
    out = tmp_path / 'out.json'
    assert listing.run(parser.parse_args([str(tmp_path / 'library'), '--json', str(out)])) == 0
    rows = json.loads(out.read_text())['episodes']
    assert [(row['id'], row['calls']) for row in rows] == [('one', 3), ('two', 5)]
    assert (rows[0]['anchors'], rows[0]['denoise_steps']) == ([0, 3, 4], 7)
    assert '2 episodes, all files intact' in capsys.readouterr().out
    with pytest.raises(LibraryError, match='not a directory'):
        listing.run(parser.parse_args([str(out)]))


def test_an_episode_with_keys_of_another_length_than_its_task_has_is_refused():
    library = Library()
    library.add(episode('one'))
    other = episode('two')
    entries = tuple(dataclasses.replace(entry, key=entry.key[:-1]) for entry in other.entries)
    with pytest.raises(LibraryError, match=r'episode two: found keys \[7\], expected \[8\]'):
        library.add(dataclasses.replace(other, entries=entries))


@pytest.mark.parametrize(
    ('poison', 'text'),
    [
        (lambda e: dataclasses.replace(e, key=e.key * np.nan), 'key that are not finite'),
        (lambda e: dataclasses.replace(e, actions=e.actions * np.inf), 'actions that are not'),
        (lambda e: dataclasses.replace(e, velocity=e.velocity * np.nan), 'velocity that are not'),
        (
            lambda e: dataclasses.replace(
                e, inputs=dataclasses.replace(e.inputs, images=e.inputs.images[..., :2])
            ),
            r'found images uint8 .* expected uint8 \[N, 2, S, S, 3\]',
        ),
    ],
    ids=['key', 'actions', 'velocity', 'images'],
)
def test_contents_that_no_call_records_are_refused_though_the_digest_fits(tmp_path, poison, text):
    one = episode('one')
    path = tmp_path / f'one{SUFFIX}'
    write_episode(dataclasses.replace(one, entries=tuple(map(poison, one.entries))), path)
    with pytest.raises(LibraryError, match=text):
        read_episode(path)


def test_a_directory_that_cannot_be_written_is_an_error_and_keeps_the_episodes(tmp_path):
    (tmp_path / 'file').write_text('')
    library = Library()
    library.add(episode('one'))
    for attempt in (library.save, library.check_writable):
        with pytest.raises(LibraryError, match=r'cannot be written .* change library\.directory'):
            attempt(tmp_path / 'file' / 'library')
    assert len(library) == 1
    library.check_writable(tmp_path / 'new')
    assert list((tmp_path / 'new').iterdir()) == []
