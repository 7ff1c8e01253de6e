"""The ROS-free library and the ``rmuscle`` command; colcon builds from CMakeLists.txt."""

import re
from pathlib import Path

from setuptools import find_packages, setup

root = Path(__file__).resolve().parent
version = re.search(
    r"^__version__ = '(.+)'$", (root / 'rmuscle_ros' / '__init__.py').read_text(), re.MULTILINE
)
if version is None:
    raise RuntimeError('rmuscle_ros/__init__.py has no line __version__ = ...')
readme = root / 'README.md'

setup(
    name='rmuscle_ros',
    version=version.group(1),
    description='Muscle memory for Vision-Language-Action policies',
    long_description=readme.read_text() if readme.exists() else '',
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    python_requires='>=3.10',
    packages=find_packages(include=['rmuscle_ros', 'rmuscle_ros.*']),
    package_data={'': ['*.html', '*.css', '*.js'], 'rmuscle_ros': ['assets/**/*', 'py.typed']},
    install_requires=[
        'matplotlib',
        'numpy',
        'pillow',
        'pyyaml',
        'safetensors',
        'torch>=2.4',
        'tqdm',
    ],
    extras_require={'sim': ['mujoco', 'gym-aloha'], 'test': ['pytest', 'pytest-timeout']},
    entry_points={'console_scripts': ['rmuscle = rmuscle_ros.cli:main']},
)
