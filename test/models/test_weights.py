import dataclasses
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from rmuscle_ros.errors import CheckpointError
from rmuscle_ros.models.registry import load_model
from rmuscle_ros.models.tiny import TinyConfig
from rmuscle_ros.models.tiny_init import untrained
from rmuscle_ros.models.weights import WEIGHTS_FILE, save_checkpoint

SMALL = TinyConfig(image_size=36, width=24, hidden=88, layers=2, heads=3, head_width=8)


@pytest.fixture
def checkpoint(tmp_path):
    model = untrained(5, SMALL)
    config = {'type': 'rmuscle_tiny', 'config': dataclasses.asdict(SMALL)}
    save_checkpoint(model, config, tmp_path / 'tiny')
    return tmp_path / 'tiny'


def edit_weights(checkpoint, change):
    tensors = load_file(checkpoint / WEIGHTS_FILE)
    change(tensors)
    save_file(tensors, checkpoint / WEIGHTS_FILE)


def test_a_checkpoint_loads_as_it_was_saved(checkpoint):
    loaded = load_model(str(checkpoint), seed=0)
    expected = untrained(5, SMALL).state_dict()
    assert loaded.trained
    assert (checkpoint / WEIGHTS_FILE).stat().st_mode & 0o777 == 0o644
    assert all(torch.equal(v, expected[k]) for k, v in loaded.model.state_dict().items())


def test_half_precision_files_load_as_float32(checkpoint):
    fingerprint = load_model(str(checkpoint), 0).fingerprint
    config = json.loads((checkpoint / 'config.json').read_text())
    save_checkpoint(untrained(5, SMALL), config, checkpoint, torch.float16)
    loaded = load_model(str(checkpoint), 0)
    assert next(loaded.model.parameters()).dtype == torch.float32
    assert loaded.fingerprint != fingerprint


def test_missing_extra_and_transposed_keys_are_listed_together(checkpoint):
    def change(tensors):
        del tensors['view_embedding']
        tensors['surplus'] = torch.zeros(2)
        tensors['state_proj.weight'] = tensors['state_proj.weight'].T.contiguous()

    edit_weights(checkpoint, change)
    with pytest.raises(CheckpointError) as caught:
        load_model(str(checkpoint), 0)
    message = str(caught.value)
    assert '3 keys' in message
    assert 'missing view_embedding [3, 24]' in message
    assert 'unexpected surplus [2]' in message
    assert 'state_proj.weight: found shape [14, 24], expected [24, 14]' in message


def test_missing_statistics_are_an_error(checkpoint):
    edit_weights(checkpoint, lambda tensors: tensors.pop('action_std'))
    with pytest.raises(CheckpointError, match='missing action_std'):
        load_model(str(checkpoint), 0)


def test_a_truncated_file_is_an_error(checkpoint):
    path = checkpoint / WEIGHTS_FILE
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match='not a complete safetensors file'):
        load_model(str(checkpoint), 0)


def test_pickle_is_refused(checkpoint):
    torch.save({'a': torch.zeros(1)}, checkpoint / WEIGHTS_FILE)
    with pytest.raises(CheckpointError, match='Pickle files'):
        load_model(str(checkpoint), 0)


@pytest.mark.parametrize(
    ('config', 'message'),
    [
        ('{', 'cannot be read as JSON'),
        ('{}', 'found no "type"'),
        ('{"type": "pi1"}', "found type 'pi1', known types: rmuscle_tiny"),
        ('{"type": "rmuscle_tiny", "config": {"widht": 3}}', 'widht'),
        ('{"type": "rmuscle_tiny"}', 'expected a mapping'),
        ('{"type": "rmuscle_tiny", "config": {"width": 24}}', 'exactly the keys cameras, head_w'),
    ],
)
def test_a_bad_config_is_an_error(checkpoint, config, message):
    (checkpoint / 'config.json').write_text(config)
    with pytest.raises(CheckpointError, match=message):
        load_model(str(checkpoint), 0)


def test_a_missing_directory_says_what_belongs_there(tmp_path):
    with pytest.raises(CheckpointError, match=r'config.json and model.safetensors'):
        load_model(str(tmp_path / 'nowhere'), 0)


def test_a_failed_save_keeps_the_old_checkpoint(checkpoint, monkeypatch):
    before = (checkpoint / WEIGHTS_FILE).read_bytes()

    def full_disk(*args, **kwargs):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr('rmuscle_ros.models.weights.save_file', full_disk)
    with pytest.raises(CheckpointError, match='No space left'):
        save_checkpoint(untrained(6, SMALL), {'type': 'rmuscle_tiny'}, checkpoint)
    assert (checkpoint / WEIGHTS_FILE).read_bytes() == before
    assert load_model(str(checkpoint), 0).trained


def test_a_size_of_another_type_is_an_error(checkpoint):
    config = json.loads((checkpoint / 'config.json').read_text())
    config['config']['image_size'] = 'many'
    (checkpoint / 'config.json').write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"found image_size 'many' in .*, expected .* 96"):
        load_model(str(checkpoint), 0)


def test_a_shipped_checkpoint_goes_by_its_name(checkpoint, monkeypatch):
    monkeypatch.setattr('rmuscle_ros.models.registry.ASSETS', checkpoint.parent)
    assert load_model('tiny', 0).fingerprint == load_model(str(checkpoint), 0).fingerprint
    with pytest.raises(CheckpointError, match='other'):
        load_model('other', 0)
