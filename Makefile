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

# $(call configure,PRESET,DIR): once; afterwards ninja itself runs CMake again when it must. CMake's
# report goes to a log and is shown only when it fails.
define configure
[ -f $(2)/build.ninja ] || { mkdir -p $(2) && echo "Configuring $(2)" >&2 && \
  { cmake --preset $(1) > $(2)/configure.log 2>&1 || \
    { cat $(2)/configure.log >&2; rm -f $(2)/build.ninja; exit 1; }; }; }
endef

.PHONY: help run serve build test test-long lint fuzz bench install clean program all-programs

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

run: program ## Build, fetch a model if none is there, run the main job on TEXT="…"
	@model="$$(build/munia pull --default)"; build/munia predict --model "$$model" "$$TEXT"

build: ## Build the program: build/munia
	@tools/bootstrap.sh build
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

# Everything, tests included.
all-programs:
	@tools/bootstrap.sh build test
	@$(call configure,release,build)
	@cmake --build build -j $(JOBS)

test: all-programs ## Build and run the tests; the last line is the sum
	@tools/venv.sh test > /dev/null
	@tools/run_tests.py --ctest build --pytest build/venv-test/bin/python --jobs $(JOBS) \
	  --munia build/munia $(addprefix --model ,$(TEST_MODELS)) -- -m "not long"

test-long: all-programs ## What takes longer: sanitizers over all units and fuzz corpora, long tests
	@tools/venv.sh test > /dev/null
	@$(call configure,asan,build/asan)
	@cmake --build build/asan -j $(JOBS)
	@$(call configure,tsan,build/tsan)
	@cmake --build build/tsan -j $(JOBS)
	@tools/run_tests.py --ctest build/asan --ctest build/tsan \
	  --pytest build/venv-test/bin/python --jobs $(JOBS) \
	  --munia build/munia $(addprefix --model ,$(TEST_MODELS)) -- -m long

lint: ## Format, layers, words, sizes, syntax
	@tools/bootstrap.sh build lint
	@tools/lint.py

fuzz: ## Run every fuzzer for FUZZ_SECONDS=60 on its corpus (clang-16)
	@tools/bootstrap.sh build fuzz
	@$(call configure,fuzz,build/fuzz)
	@cmake --build build/fuzz -j $(JOBS)
	@for fuzzer in build/fuzz/*_fuzz; do \
	  name="$$(basename "$$fuzzer")"; new="build/fuzz/corpus/$$name"; seeds="tests/corpus/$$name"; \
	  mkdir -p "$$new"; [ -d "$$seeds" ] || seeds=; echo "== $$name" >&2; \
	  "$$fuzzer" -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
	    -artifact_prefix="build/fuzz/$$name-" "$$new" $$seeds; \
	done

serve: program ## Start the service on http://127.0.0.1:8080 (SERVE_FLAGS="--port 7860 …")
	@model="$$(build/munia pull --default)"; build/munia serve --model "$$model" $(SERVE_FLAGS)

bench: ## Measure this machine's limits, the kernels and the model
	@tools/bootstrap.sh build
	@$(call configure,release,build)
	@cmake -S . -B build -DMUNIA_BUILD_BENCH=ON > build/configure.log
	@cmake --build build -j $(JOBS)
	@for bench in build/*_bench; do [ ! -x "$$bench" ] || "$$bench"; done
	@model="$$(build/munia pull --default)"; build/munia bench --model "$$model"

install: program ## Install under PREFIX=/usr/local (DESTDIR honoured)
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

clean: ## Remove everything that was built (models stay in the cache)
	@rm -rf build
