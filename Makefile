# A thin front of CMake and of the scripts in tools/. `make help` lists the targets with the line that follows ##.

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 600
ROWS ?=

configure = cmake --preset release --log-level=WARNING >/dev/null -DBUILD_TESTING
build_release = $(configure)=OFF && cmake --build --preset release -- --quiet

.PHONY: all help run demo check test bench bench-trend bench-peers prove coverage fuzz soak tidy format install clean \
	packages-build packages-check packages-tidy packages-test packages-bench

all: packages-build ## Build the libraries and the command in build/ (the default target)
	@$(configure)=OFF
	@cmake --build --preset release

help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
		while IFS='|' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done
	@echo
	@echo '  make packages-TASK installs the Debian packages of a task: build, check, tidy, test, bench'

run: packages-build ## Start a server with the built-in policy until Ctrl-C; it prints what to try
	@$(build_release)
	@exec build/ration serve

demo: packages-build ## Print what limits decide, request by request
	@$(build_release)
	@build/examples/decisions

check: packages-check ## Run the fast tests: less than a minute after a build
	@tools/check.sh

test: packages-test ## Run every test in every preset, and the proofs
	@tools/test.sh

bench: packages-bench ## Measure the library and the server, and add a line to the history (RATION_BENCH_ROWS=text)
	@$(build_release)
	@build/bench/ration_bench build/bench.json
	@tools/bench/server.sh build
	@tools/bench/history.py append build/bench.json

bench-trend: ## Draw how each benchmark row changed over the commits (ROWS=text)
	@tools/bench/history.py trend "$(ROWS)"

bench-peers: ## Install, build and run the limiters that ration is compared with; make bench then runs them too
	@tools/bench/peers.sh

prove: packages-test ## Prove the arithmetic with Frama-C, and check that planted bugs are found
	@tests/proof/run.sh

coverage: packages-test ## Measure lines and branches of every module; make test requires all of core
	@cmake --preset coverage -DBUILD_TESTING=ON -DRATION_COVERAGE_OF_ALL=ON --log-level=WARNING >/dev/null
	@cmake --build --preset coverage -- --quiet
	@find build/coverage -name '*.gcda' -delete
	@ctest --test-dir build/coverage --output-on-failure -j "$$(nproc)"
	@tools/coverage.sh all

fuzz: packages-test ## Fuzz each target for FUZZ_SECONDS; make test replays the corpora
	@tools/fuzz.sh $(FUZZ_SECONDS)

soak: packages-test ## Run random campaigns for SOAK_SECONDS, with a new seed each round
	@tools/soak.sh $(SOAK_SECONDS)

tidy: packages-tidy ## Run clang-tidy over the sources that changed since they were last clean
	@tools/tidy.py --control
	@tools/tidy.py

format: ## Format every C file with clang-format
	@find include src tests examples tools -name '*.[ch]' -print0 | xargs -0 clang-format -i

install: all ## Install below PREFIX (/usr/local)
	@cmake --install build --prefix "$(PREFIX)"

clean: ## Remove build/
	@rm -rf build

packages-build packages-check packages-tidy packages-test packages-bench: packages-%:
	@tools/install-packages.sh $*
