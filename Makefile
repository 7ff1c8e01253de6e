# Every target but help and clean sets up first: minutes once, under a second later.
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format bench soak lock clean

# Any Python that runs will do for the set-up itself; a version manager's shim may not run.
BOOT_PYTHON = $(shell for python in /usr/bin/python3 python3 python3.12 python3.11 python3.10; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1 \
	&& echo "$$python" && break; done)
# Runs a command with the built overlay sourced.
IN_ROS := .venv/bin/python -m rmuscle_ros.ros.overlay

help: ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'ROS_DISTRO=jazzy|kilted  which wheels; a ROS that is already sourced is used instead'
	@echo 'PYTHON=...               a Python 3.11 or 3.12 instead of the first one found'
	@echo "ARGS='...'               handed on to the command"
	@echo "PIP_EXTRA_INDEX_URL=...  PyTorch's CPU wheel index saves several GB where there is no GPU"

setup: ## Environment .venv with ROS 2, PyTorch, MuJoCo; build of the package
	@python="$(BOOT_PYTHON)"; if [ -z "$$python" ]; then \
	echo 'No Python from 3.10 on runs here. Do: sudo apt-get install python3 python3-venv' >&2; \
	exit 1; fi; "$$python" tools/setup.py

demo: setup ## Simulated ALOHA moved through ROS 2, dense and cached; out/demo/report.html
	@.venv/bin/rmuscle demo $(ARGS)

test: setup ## The test suite, e.g. make test ARGS='-k overlay'
	@$(IN_ROS) .venv/bin/python -P -m pytest $(ARGS)

lint: setup ## ruff and mypy
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy

format: setup ## Rewrite the code in the project's style
	@.venv/bin/ruff check --fix-only --quiet .
	@.venv/bin/ruff format .

bench: setup ## One call by stage, dense and cached side by side
	@.venv/bin/rmuscle bench call $(ARGS)

soak: setup ## The long tests that do not belong in make test
	@$(IN_ROS) .venv/bin/python -P -m pytest -m soak --timeout 3600 $(ARGS)

lock: setup ## Resolve requirements/*.in into *.lock again
	@.venv/bin/python tools/lock.py $(ARGS)

clean: ## Remove all that set-up and tools made; keeps out/
	rm -rf .venv build install log *.egg-info .mypy_cache .pytest_cache .ruff_cache .setup.lock
