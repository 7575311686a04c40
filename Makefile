# make demo   sets everything up and plays the story: crash, diagnosis, patch, proof
# make test   sets everything up and passes the tests
# make quick  passes lint, types and the tests that matter, in a minute: no boxes, torch or system packages
# make docs   writes docs/rules and docs/faults.md anew from rules and lines, and the schema of playbooks
VENV    := .venv
PYTHON  ?= python3
BIN     := $(VENV)/bin
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test quick check docs setup system story benchmark e2e-real e2e-containers e2e-systemd proof clean

demo: story
	$(BIN)/python -m examples.story.demo

# Boxes share this machine's network and the story has a port of its own, so these go one after the other.
test: story check
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --ignore tests/e2e --ignore tests/examples
	$(BIN)/python -m pytest tests/e2e tests/examples

# The type checker and the tests at the same time: one core each, then both for the tests.
quick: $(VENV)/light
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy & types=$$!; \
	$(BIN)/python -m pytest --quick -n 2 --durations 5 --durations-min 2; tests=$$?; \
	wait $$types && exit $$tests

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: setup
	XDG_CONFIG_HOME=/dev/null $(BIN)/triage rules docs --write docs/rules
	$(BIN)/python -m triage.playbook.editor > docs/playbook.schema.json
	$(BIN)/python -m triage.logs.faults.line_docs > docs/faults.md

benchmark: story
	$(BIN)/python -m pytest tests/benchmarks tests/patching tests/scan tests/e2e -m benchmark -s

# Real servers on a CPU: some gigabytes of packages the first time, then minutes.
e2e-real: story
	$(BIN)/python -m pytest tests/e2e/real -m real -s

# docker, podman, supervisord and Kubernetes themselves, in ten minutes; the first time, when the last is built of
# Debian's source, in a quarter of an hour.
e2e-containers: setup
	$(BIN)/python -m pytest tests/e2e/containers -m real

# Systemd 247 to 262 for real: the first time a minute for each machine's file system, then half a minute.
e2e-systemd: setup
	$(BIN)/python -m pytest tests/e2e/systemd -m systemd

# Every shipped patch against many releases; writes docs/proof.md.
proof: setup
	$(BIN)/python -m tests.patching.proof

setup: system $(VENV)/ready

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,torch]'
	touch $@

# Without torch. What `setup` has made serves as well.
$(VENV)/light: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

# The sources of the engine that the story is about, and where possible the machine that it plays on.
story: setup
	$(BIN)/python -m examples.story.prepare

# What pip cannot install, where this user may: Debian packages. Elsewhere the tests that need them say so.
system:
	@sh tests/e2e/system-packages.sh

clean:
	rm -rf $(VENV) .cache
