# A thin front of CMake: each target says what it runs.

PREFIX ?= /usr/local

.PHONY: all run demo test bench bench-peers prove coverage fuzz soak format install clean packages-build packages-test packages-bench

all: packages-build
	@cmake --preset release -DBUILD_TESTING=OFF --log-level=WARNING >/dev/null
	@cmake --build --preset release

# A server with a policy of its own, until Ctrl-C. It prints what to try.
run: packages-build
	@cmake --preset release -DBUILD_TESTING=OFF --log-level=WARNING >/dev/null
	@cmake --build --preset release -- --quiet
	@exec build/ration serve

# What limits decide, row by row.
demo: packages-build
	@cmake --preset release -DBUILD_TESTING=OFF --log-level=WARNING >/dev/null
	@cmake --build --preset release -- --quiet
	@build/examples/decisions

# Every preset, the proofs and the checks of form. Ends with the count of tests.
test: packages-test
	@tools/test.sh

bench: packages-bench
	@cmake --preset release -DBUILD_TESTING=OFF --log-level=WARNING >/dev/null
	@cmake --build --preset release -- --quiet
	@build/bench/ration_bench build/bench.json
	@tools/bench/server.sh build

# Installs, builds and runs the limiters that ration is compared with; make bench then runs them too.
bench-peers:
	@tools/bench/peers.sh

# Frama-C's proofs alone (make test runs them too).
prove: packages-test
	@tests/proof/run.sh

# Which lines and branches of every module the tests reach; make test requires all of core.
coverage: packages-test
	@cmake --preset coverage -DBUILD_TESTING=ON -DRATION_COVERAGE_OF_ALL=ON --log-level=WARNING >/dev/null
	@cmake --build --preset coverage -- --quiet
	@find build/coverage -name '*.gcda' -delete
	@ctest --test-dir build/coverage --output-on-failure -j "$$(nproc)"
	@tools/coverage.sh all

# FUZZ_SECONDS of coverage-guided fuzzing per target; make test replays the corpora.
FUZZ_SECONDS ?= 60
fuzz: packages-test
	@tools/fuzz.sh $(FUZZ_SECONDS)

# Longer random campaigns than make test, with a printed seed.
SOAK_SECONDS ?= 600
soak: packages-test
	@tools/soak.sh $(SOAK_SECONDS)

format:
	@find include src tests examples tools -name '*.[ch]' -print0 | xargs -0 clang-format -i

install: all
	@cmake --install build --prefix "$(PREFIX)"

clean:
	@rm -rf build

packages-build:
	@tools/install-packages.sh build

packages-bench:
	@tools/install-packages.sh bench

packages-test:
	@tools/install-packages.sh test
