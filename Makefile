# Thin commands over the CMake presets (CMakePresets.json); `make help` lists them. Each installs the
# packages it needs first (tools/bootstrap.sh, no network when nothing is missing) and does no work
# twice. MUNIA_JOBS=N sets how many compilers and tests run at once.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

TEXT ?= 今天的实验终于成功了，太棒了！
export TEXT
PREFIX ?= /usr/local
DESTDIR ?=

# Recursive on purpose: asked only by the targets that compile, after the packages are there.
JOBS = $$(tools/jobs.sh)
TEST_MODELS := qwen2.5-coder-0.5b-packaged smollm2-135m-instruct
FUZZ_SECONDS ?= 60
SERVE_FLAGS ?=
IMAGE ?= munia

# $(call configure,PRESET,DIR): once; afterwards ninja itself runs CMake again when it must. CMake's
# report goes to a log and is shown only when it fails.
define configure
[ -f $(2)/build.ninja ] || { mkdir -p $(2) && echo "Configuring $(2)" >&2 && \
  { cmake --preset $(1) > $(2)/configure.log 2>&1 || \
    { cat $(2)/configure.log >&2; rm -f $(2)/build.ninja; exit 1; }; }; }
endef

.PHONY: help run build web python wheel package-configured serve test test-long lint fuzz bench compare claims docs install clean program all-programs arm64 deb image release

help: ## This list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

run: program ## Build, fetch a model if none is there, run the main job on TEXT="…"
	@model="$$(build/munia pull --default)"; build/munia predict --model "$$model" "$$TEXT"

build: ## Build the program, with the web page where npm is there: build/munia
	@tools/bootstrap.sh build
	@tools/build_page.sh --if-possible
	@$(call configure,release,build)
	@cmake --build build --target munia -j $(JOBS)

# As build, but on stderr, and silent when there is nothing to do (ninja says so even with --quiet).
program:
	@tools/bootstrap.sh build
	@$(call configure,release,build)
ifeq ($(wildcard build/munia),)
	@cmake --build build --target munia -j $(JOBS) >&2
else
	@cmake --build build --target munia -j $(JOBS) -- --quiet 2>&1 | \
	  { grep -v '^ninja: no work to do\.$$' || true; } >&2
endif

web: ## Build the web page: web/dist, which the next build of the program takes in
	@tools/bootstrap.sh web
	@tools/build_page.sh

serve: web program ## Build the page, start the service on http://127.0.0.1:8080 (SERVE_FLAGS=…)
	@model="$$(build/munia pull --default)"; exec build/munia serve --model "$$model" $(SERVE_FLAGS)

# The extension is built with the program's libraries, by the interpreter of a venv of its own.
package-configured:
	@tools/bootstrap.sh build python
	@tools/venv.sh python > /dev/null
	@$(call configure,release,build)
	@grep -q '^MUNIA_BUILD_PYTHON:BOOL=ON' build/CMakeCache.txt || cmake -S . -B build \
	  -DMUNIA_BUILD_PYTHON=ON -DPython_EXECUTABLE="$(CURDIR)/build/venv-python/bin/python" \
	  > build/configure.log

python: package-configured ## Build the Python package in place: PYTHONPATH=build/python
	@cmake --build build --target _munia -j $(JOBS)

wheel: ## Build a wheel that carries what it needs: build/wheel/munia-*.whl
	@tools/bootstrap.sh build python
	@tools/venv.sh python > /dev/null
	@tools/wheel.sh build/venv-python/bin/python build/wheel

# The tests that are built here are run by tests/test_arm64.py (make test-long): qemu is slow.
arm64: ## Cross-build for 64-bit ARM Linux (build/arm64/munia), try it under qemu
	@tools/bootstrap.sh build arm64
	@tools/arm64_root.sh
	@$(call configure,arm64,build/arm64)
	@cmake --build build/arm64 -j $(JOBS) \
	  --target munia munia_base_test munia_kernels_test
	@tools/arm64_run.sh build/arm64/munia doctor --model tests/models/qwen2-tied-bf16

# Everything, tests included.
all-programs: web package-configured
	@tools/bootstrap.sh build test
	@cmake --build build -j $(JOBS)

test: all-programs ## Build and run the tests; the last line is the sum
	@tools/venv.sh test > /dev/null
	@tools/venv.sh docs > /dev/null
	@tools/run_tests.py --ctest build --pytest build/venv-test/bin/python --jobs $(JOBS) \
	  --package build/venv-python/bin/python=build/python \
	  --munia build/munia $(addprefix --model ,$(TEST_MODELS)) -- -m "not long"

test-long: all-programs ## What takes longer: sanitizers over all units and fuzz corpora, long tests
	@tools/venv.sh test > /dev/null
	@tools/venv.sh lmeval > /dev/null
	@tools/venv.sh ray > /dev/null
	@$(call configure,asan,build/asan)
	@cmake --build build/asan -j $(JOBS)
	@$(call configure,tsan,build/tsan)
	@cmake --build build/tsan -j $(JOBS)
	@tools/run_tests.py --ctest build/asan --ctest build/tsan \
	  --pytest build/venv-test/bin/python --jobs $(JOBS) \
	  --package build/venv-python/bin/python=build/python \
	  --munia build/munia $(addprefix --model ,$(TEST_MODELS)) -- -m long

lint: ## Format, layers, words, sizes, syntax
	@tools/bootstrap.sh build lint
	@tools/lint.py

fuzz: ## Run every fuzzer for FUZZ_SECONDS=60 on its corpus (clang-16)
	@tools/bootstrap.sh build fuzz
	@$(call configure,fuzz,build/fuzz)
	@cmake --build build/fuzz -j $(JOBS) --target fuzzers
	@tools/fuzz.sh build/fuzz $(FUZZ_SECONDS) $(JOBS)

bench: ## Measure this machine's limits, the kernels and the model
	@tools/bootstrap.sh build
	@$(call configure,release,build)
	@cmake -S . -B build -DMUNIA_BUILD_BENCH=ON > build/configure.log
	@cmake --build build -j $(JOBS)
	@for bench in kernels head; do "build/$${bench}_bench"; done
	@model="$$(build/munia pull --default)"; build/constraint_bench "$$model"; \
		build/munia bench --model "$$model"

# --readme only by hand: bench/compare/render.py FILE --readme puts a run into the READMEs.
compare: program ## Beside its peers, interleaved (20 GB in build/): ONLY=llamacpp,openvino QUICK=1 ROUNDS=5 THREADS=N RESUME=FILE
	@tools/bootstrap.sh build test
	@exec bench/compare/run_compare.py $(if $(QUICK),--quick) $(if $(ONLY),--only "$(ONLY)") \
	  $(if $(ROUNDS),--rounds "$(ROUNDS)") $(if $(THREADS),--threads "$(THREADS)") \
	  $(if $(RESUME),--resume "$(RESUME)")

claims: program ## The articles' figures of accuracy, measured with intervals: SHOP=FILE.csv WEIBO=FILE.csv
	@model="$$(build/munia pull --default)"; bench/claims.py "$$model" $(if $(SHOP),--shop "$(SHOP)") \
	  $(if $(WEIBO),--weibo "$(WEIBO)")

docs: ## Make the manual: build/docs/index.html, in Chinese build/docs/zh/index.html
	@tools/bootstrap.sh python
	@rm -rf build/docs
	@tools/build_docs.sh "$$(tools/venv.sh docs)/bin/python" build/docs
	@echo build/docs/index.html

install: program ## Install under PREFIX=/usr/local (DESTDIR honoured)
	@cmake --build build --target shell_files
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

deb: web program ## Build the Debian package: build/package/munia_*.deb
	@tools/make_deb.sh build build/package

image: ## Build the container image (needs Docker): IMAGE=munia
	@docker build -f deploy/Dockerfile -t "$(IMAGE)" .

release: web program wheel ## Debian packages, wheel, sources, SBOM, checksums: build/release
	@tools/release.sh

clean: ## Remove everything that was built (models stay in the cache)
	@rm -rf build web/dist web/node_modules
