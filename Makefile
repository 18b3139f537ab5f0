# `make` alone lists what there is. Nothing here writes outside this directory, but for
# the Debian packages (`make setup`) and `make install`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Steps follow one another; each uses all cores by itself, but for fuzzers.
ifeq ($(filter fuzz-%,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
CLANG_FORMAT ?= $(or $(shell command -v clang-format-14),clang-format)
CLANG_TIDY ?= $(or $(shell command -v clang-tidy-14),clang-tidy)

VENV := .venv
BIN := $(VENV)/bin
STAMPS := build/stamps
STEP := packaging/step
# Much of the Python tests is waiting. Some look at times: no more than there are cores in CI.
TEST_PROCESSES ?= 2
# Simulated overlays under a sanitizer, where each takes ten times as long.
SANITIZED_SEEDS ?= 50
SANITIZED_KILLS ?= 10
# What has threads without gRPC; in the rest the thread sanitizer can find nothing.
THREADED := base node_threads planning_threads ps store transport trust
NOTHING :=
ONE_SPACE := $(NOTHING) $(NOTHING)

# One cache serves all build directories, which debug information would otherwise tell apart.
export CCACHE_DIR ?= $(CURDIR)/.cache/ccache
export CCACHE_NOHASHDIR := 1
export CMAKE_CXX_COMPILER_LAUNCHER := ccache
# Under one name: CMake would say c++, the wheel's build g++, and the cache tells them apart.
ifeq ($(origin CXX),default)
CXX := g++
endif
export CXX

checksum = $(firstword $(shell cksum < $(1)))
PACKAGES_DONE := $(STAMPS)/packages-$(call checksum,packaging/debian-packages.txt)
VENV_DONE := $(VENV)/square-requirements-$(call checksum,pyproject.toml)
TORCH_DONE := $(VENV)/square-torch-$(call checksum,pyproject.toml)
FRAMEWORKS_DONE := $(VENV)/square-frameworks-$(call checksum,pyproject.toml)
PYTHON_DONE := $(VENV)/square-installed

# Directories too: theirs is the time that changes when a file goes away.
PYTHON_SOURCES := CMakeLists.txt pyproject.toml $(shell find src include bindings python proto cmake \
	-mindepth 1 -name __pycache__ -prune -o -print 2>/dev/null)
CXX_DIRECTORIES := $(wildcard include src bindings tests benchmarks examples)
CXX_SOURCES = $(shell find $(CXX_DIRECTORIES) -name '*.h' -o -name '*.cc')
# Files that include gRPC take minutes each in clang-tidy.
TIDY_SOURCES = $(shell grep -LE '(grpc|google)(pp|/)|\.pb\.h"' $$(find src -name '*.cc' -not -path '*/grpc/*'))

## help: list the targets
.PHONY: help
help:
	@echo "Square: fair and optimal collectives across datacenters"
	@sed -nE 's/^## ([a-z-]+): (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

# One that lies there and fits spares the build, and all that it needs.
WHEEL := $(firstword $(wildcard dist/square-*-cp$(shell $(PYTHON) -c \
	'import sys; print("%d%d" % sys.version_info[:2])' 2>/dev/null)-*.whl))

## demo: set up, build, and run three tenants over four sites under three policies
.PHONY: demo
demo: $(if $(WHEEL),build/demo,python)
	@$(STEP) "demo" "read the message above; 'make test' checks the build" \
	  $(if $(WHEEL),build/demo/bin,$(BIN))/square demo $(DEMO_ARGS)

build/demo: $(WHEEL)
	@echo "== $(WHEEL) is used; without it the sources are built"
	@$(STEP) "virtual environment" "Square needs Python 3.11 or newer with venv" $(PYTHON) -m venv --clear $@
	@$(STEP) "wheel" "read pip's message above" $@/bin/pip install --quiet $(WHEEL)
	@touch $@

## test: set up, build, lint, and run the C++ and Python tests; the closing line is pytest's
.PHONY: test
test: lint python test-cpp test-python

## setup: Debian packages and the virtual environment .venv
.PHONY: setup
setup: $(PACKAGES_DONE) $(VENV_DONE)

$(PACKAGES_DONE): packaging/debian-packages.txt
	@mkdir -p $(STAMPS)
	@$(STEP) "Debian packages" "install what packaging/debian-packages.txt lists, then run make again" \
	  packaging/install-packages
	@rm -f $(STAMPS)/packages-* && touch $@

$(VENV_DONE): pyproject.toml | $(PACKAGES_DONE)
	@$(STEP) "find Python" "Square needs Python 3.11 or newer with venv; name one: make PYTHON=/path/to/python3" \
	  $(PYTHON) -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))'
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  $(STEP) "virtual environment" "remove .venv and run make again" $(PYTHON) -m venv --clear $(VENV); fi
	@$(BIN)/python packaging/requirements.py > $(VENV)/requirements.txt
	@$(STEP) "Python packages" "check the network and pip's settings, then run make again" \
	  $(BIN)/python -m pip install --quiet -r $(VENV)/requirements.txt
	@rm -f $(VENV)/square-requirements-* && touch $@

# Large, and only tests want it.
$(TORCH_DONE): $(VENV_DONE)
	@$(BIN)/python packaging/requirements.py torch-tests > $(VENV)/torch-requirements.txt
	@$(STEP) "torch, for the tests" "check the network and pip's settings, then run make again" \
	  $(BIN)/python -m pip install --quiet -r $(VENV)/torch-requirements.txt
	@rm -f $(VENV)/square-torch-* && touch $@

$(FRAMEWORKS_DONE): $(TORCH_DONE)
	@$(BIN)/python packaging/requirements.py frameworks > $(VENV)/frameworks-requirements.txt
	@$(STEP) "frameworks, for the tests" "check the network and pip's settings, then run make again" \
	  $(BIN)/python -m pip install --quiet -r $(VENV)/frameworks-requirements.txt
	@rm -f $(VENV)/square-frameworks-* && touch $@

build/%/build.ninja: CMakePresets.json | $(PACKAGES_DONE)
	@$(STEP) "configure $*" "read CMake's message above; 'make clean' starts afresh" cmake --preset $*
	@touch $@

## build: the optimised build with assertions and tests, in build/dev
.PHONY: build
build: build/dev/build.ninja
	@$(STEP) "build dev" "read the compiler's first error above" cmake --build build/dev --parallel $(JOBS)

## python: install the package and the `square` command into .venv
.PHONY: python
python: setup $(PYTHON_DONE)

# The build requirements are in .venv already: no isolation, so that their headers keep
# their place and the compiler cache hits. In the tree of the tests, which so compile nothing again.
$(PYTHON_DONE): $(PYTHON_SOURCES) $(VENV_DONE)
	@$(STEP) "Python package" "read the first error above; 'make clean' starts afresh" \
	  env CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(BIN)/python -m pip install --quiet --no-build-isolation --no-deps \
	  --force-reinstall -C build-dir=build/dev -C cmake.define.SQUARE_BUILD_TESTS=ON .
	@touch $@

## stubs: write python/square/_core.pyi anew, after a change of bindings/
.PHONY: stubs
stubs: python
	@$(STEP) "stubs" "read the message above" $(BIN)/python packaging/stubs.py python/square/_core.pyi
	@$(BIN)/ruff format --quiet python/square/_core.pyi

## lint: clang-format, ruff and mypy; changes nothing
.PHONY: lint
lint: setup
	@$(STEP) "clang-format" "run 'make format'" $(CLANG_FORMAT) --dry-run -Werror $(CXX_SOURCES)
	@$(STEP) "ruff check" "run 'make format', then mend what is left" $(BIN)/ruff check --quiet .
	@$(STEP) "ruff format" "run 'make format'" $(BIN)/ruff format --quiet --check .
	@$(STEP) "mypy" "mend the types named above" $(BIN)/mypy python/square python/square_autoload

## format: let clang-format and ruff rewrite the sources
.PHONY: format
format: setup
	@$(CLANG_FORMAT) -i $(CXX_SOURCES)
	@$(BIN)/ruff check --quiet --fix . || true
	@$(BIN)/ruff format --quiet .

## tidy: clang-tidy on src/, a few minutes, not part of `make test`
.PHONY: tidy
tidy: build/tidy/build.ninja
	@printf '%s\n' $(TIDY_SOURCES) | \
	  $(STEP) "clang-tidy" "mend what it names, or say in .clang-tidy why not" \
	  xargs -P $(JOBS) -n 1 $(CLANG_TIDY) --quiet -p build/tidy

# One more than there are cores: several of the programs wait half of their time.
## test-cpp: the C++ tests of build/dev
.PHONY: test-cpp
test-cpp: build
	@$(STEP) "C++ tests" "the failing test printed its seed: SQUARE_SEED=N build/dev/tests/cpp/test_FOLDER runs it again" \
	  ctest --preset dev --parallel $$(($(JOBS) + 1))

## test-python: the Python tests but torch's, against the installed package and build/dev
.PHONY: test-python
test-python: python build
	@$(STEP) "Python tests" "the failing test printed its seed; run it alone: $(BIN)/pytest -k NAME" \
	  env PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest --ignore tests/python/torch_backend \
	  --numprocesses $(TEST_PROCESSES) --dist loadgroup --no-loadscope-reorder

## test-torch: install torch, some GB, and test the backend for it
.PHONY: test-torch
test-torch: python $(TORCH_DONE)
	@$(STEP) "torch tests" "the failing test printed its seed; run it alone: $(BIN)/pytest -k NAME" \
	  env PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest tests/python/torch_backend tests/python/test_data.py \
	  tests/python/test_docs.py::test_python_runs_with_torch \
	  --numprocesses $(TEST_PROCESSES) --dist loadgroup --no-loadscope-reorder

## test-torch-suite: torch's own tests of a backend on Gloo and on square, compared
.PHONY: test-torch-suite
test-torch-suite: python $(TORCH_DONE)
	@$(STEP) "torch's suite" "run one test alone: $(BIN)/python tests/torch_suite.py --only NAME --verbose" \
	  $(BIN)/python tests/torch_suite.py

## sanitize: the C++ tests under the address, undefined-behaviour and thread sanitizers
.PHONY: sanitize
sanitize: build/asan/build.ninja build/tsan/build.ninja
	@$(STEP) "build asan" "read the compiler's first error above" cmake --build build/asan --parallel $(JOBS)
	@$(STEP) "C++ tests under asan" "the report above names the line" \
	  env SQUARE_SEEDS=$(SANITIZED_SEEDS) SQUARE_KILLS=$(SANITIZED_KILLS) ctest --preset asan --parallel $(JOBS)
	@$(STEP) "build tsan" "read the compiler's first error above" cmake --build build/tsan --parallel $(JOBS) \
	  --target $(THREADED:%=test_%)
	@$(STEP) "C++ tests under tsan" "the report above names both threads" \
	  env SQUARE_SEEDS=$(SANITIZED_SEEDS) SQUARE_KILLS=$(SANITIZED_KILLS) \
	  ctest --preset tsan --parallel $(JOBS) --tests-regex '^($(subst $(ONE_SPACE),|,$(THREADED)))$$'

## test-long: all tests with many more seeds, and those too long for every day
.PHONY: test-long
test-long: export SQUARE_LONG := 1
test-long: export SQUARE_SEEDS := 20000
test-long: export SQUARE_KILLS := 1000
test-long: export SANITIZED_KILLS := 100
test-long: export SQUARE_SEALED_BLOCKS := 10000000
test-long: test sanitize $(FRAMEWORKS_DONE) test-torch test-wheel test-bugs fuzz

## test-bugs: plants each bug that the simulation is to find, some minutes
.PHONY: test-bugs
test-bugs: build
	@$(STEP) "planted bugs" "one that is not found: build/dev/tests/cpp/world/world --bug NAME" \
	  build/dev/tests/cpp/world/world --bug all --seeds 1..2000

FUZZ_SECONDS ?= 600
FUZZ_SEED ?= 0  # a new one each time
FUZZ_TARGETS ?= coded_block frames handshake messages node_messages plan topology trust

## fuzz: libFuzzer on what reads what others wrote, FUZZ_SECONDS (600) long each of FUZZ_TARGETS
.PHONY: fuzz
fuzz: build/asan/build.ninja
	@$(STEP) "build the fuzzers" "read the compiler's first error above" \
	  cmake --build build/asan --parallel $(JOBS) --target $(FUZZ_TARGETS:%=fuzz_%)
	@$(MAKE) --no-print-directory --jobs=$(JOBS) $(FUZZ_TARGETS:%=fuzz-%)

# Several at a time: each is one thread.
.PHONY: $(FUZZ_TARGETS:%=fuzz-%)
$(FUZZ_TARGETS:%=fuzz-%): fuzz-%:
	@mkdir -p build/fuzz/$*
	@$(STEP) "fuzz $*" "the input that it names makes it again: build/asan/tests/fuzz/fuzz_$* FILE" \
	    build/asan/tests/fuzz/fuzz_$* -seed=$(FUZZ_SEED) -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -verbosity=0 \
	    -artifact_prefix=build/fuzz/ build/fuzz/$* tests/fuzz/corpus/$*

## docs: the documentation as a site, in build/docs
.PHONY: docs
docs: python
	@$(STEP) "docs" "mend what it warns of" $(BIN)/sphinx-build -q -W -c docs/site docs build/docs
	@echo "build/docs/index.html"

WHEELS := $(BIN)/python packaging/wheels.py
RELEASE_DONE := $(VENV)/square-release-$(call checksum,pyproject.toml)

$(RELEASE_DONE): $(VENV_DONE)
	@$(BIN)/python packaging/requirements.py release > $(VENV)/release-requirements.txt
	@$(STEP) "auditwheel and build" "check the network and pip's settings, then run make again" \
	  $(BIN)/python -m pip install --quiet -r $(VENV)/release-requirements.txt
	@rm -f $(VENV)/square-release-* && touch $@

## wheel: wheels that bring their libraries, for every Python found here, and the sdist, in dist/
.PHONY: wheel
wheel: python $(RELEASE_DONE)
	@$(STEP) "wheels" "read the message above" $(WHEELS) --sdist

# The wheel for .venv's Python, from what is built already.
## test-wheel: a wheel, and the demo and a torch script on a fresh Debian without build tools
.PHONY: test-wheel
test-wheel: python $(RELEASE_DONE)
	@rm -rf build/wheel-tested
	@$(STEP) "wheel" "read the message above" env CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(WHEELS) \
	  --python $(CURDIR)/$(BIN)/python --build-dir build/dev --config cmake.define.SQUARE_BUILD_TESTS=ON \
	  --into build/wheel-tested
	@$(STEP) "fresh Debian" "read the message above" \
	  $(BIN)/python packaging/fresh_debian.py build/wheel-tested/*.whl

## release: check that this tree can be released, and print what to upload
.PHONY: release
release: python
	@$(STEP) "release" "mend what is wrong above; 'make wheel' fills dist/" \
	  $(BIN)/python packaging/release.py $(RELEASE_ARGS)

## install: build and install the C++ library under PREFIX (/usr/local)
.PHONY: install
install: build/release/build.ninja
	@$(STEP) "build release" "read the compiler's first error above" cmake --build build/release --parallel $(JOBS)
	@$(STEP) "install" "name a place you may write to: make install PREFIX=DIR" \
	  cmake --install build/release --prefix $(PREFIX)

## clean: remove what was built, but not .venv and the compiler's cache
.PHONY: clean
clean:
	@rm -rf build dist $(PYTHON_DONE)

## distclean: remove everything that make made
.PHONY: distclean
distclean: clean
	@rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache
