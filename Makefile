# surety: make run, make test, make help.

MODEL ?= qwen2.5-coder-0.5b-instruct
TEST_MODEL := smollm2-135m-instruct
BUILD := build
JOBS ?= $(shell nproc)
CMAKE := cmake -G Ninja -Wno-dev --log-level=WARNING
SURETY := $(BUILD)/bin/surety
CTEST := ctest --output-on-failure -j $(JOBS)
FUZZ_SECONDS ?= 20
SOAK_REQUESTS ?= 600000
# gateway_test would take half of a run again, so it is on demand: make sanitize ASAN_TESTS=gateway_test (TSAN_TESTS).
ASAN_TESTS ?= base_test tensor_test kernels_test model_test kv_test observe_test spec_test train_test engine_test http_test
TSAN_TESTS ?= base_test observe_test train_test engine_test http_test

export PROMPT
.DEFAULT_GOAL := help
.PHONY: help run chat build test soak sanitize tsan fuzz bench check packages clean $(BUILD)-all

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo '  make chat MODEL=smollm2-135m-instruct PROMPT="Why is the sky blue?"'

run: packages ## install what is missing, build, fetch the model, serve it under a policy, answer three questions
	@tools/governed_demo "$(MODEL)"

chat: packages ## the same without a server: answer a first question, then chat
	@tools/quickstart "$(MODEL)"

packages:
	@tools/install_packages build

build: packages ## build the program: build/bin/surety
	@tools/build_program $(BUILD)

$(BUILD)-all: packages
	@[ -f $(BUILD)/build.ninja ] || $(CMAKE) -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release
	@ninja -C $(BUILD) -j $(JOBS)

test: $(BUILD)-all ## all tests: unit, golden, end to end, layers, style, documents
	@tools/install_packages test || echo "surety: tests that need these packages are skipped" >&2
	@$(SURETY) models pull $(TEST_MODEL) >/dev/null
	@tools/install_client
	@cd $(BUILD) && $(CTEST)

soak: $(BUILD)-all ## the slow label: SOAK_REQUESTS (600000) random requests with callers who leave, three cache set-ups, ten minutes
	@$(SURETY) models pull $(TEST_MODEL) >/dev/null
	@cd $(BUILD) && SURETY_SOAK_REQUESTS=$(SOAK_REQUESTS) ctest --output-on-failure -V -C Slow -L slow

check: ## layers, style and documents alone
	@tools/layer_check.py && tools/style_check.py && tools/doc_check.py

sanitize: packages ## unit tests of the modules in ASAN_TESTS, with AddressSanitizer and UndefinedBehaviorSanitizer
	@[ -f $(BUILD)-asan/build.ninja ] || $(CMAKE) -S . -B $(BUILD)-asan -DCMAKE_BUILD_TYPE=Sanitize \
	  -DCMAKE_CXX_FLAGS_SANITIZE="-O1 -g1" -DSURETY_SANITIZE=address,undefined
	@ninja -C $(BUILD)-asan -j $(JOBS) $(ASAN_TESTS)
	@cd $(BUILD)-asan && printf '%s\n' $(ASAN_TESTS) | xargs -P $(JOBS) -I{} env bin/{} --gtest_brief=1

tsan: packages ## unit tests of the modules in TSAN_TESTS, with ThreadSanitizer
	@[ -f $(BUILD)-tsan/build.ninja ] || $(CMAKE) -S . -B $(BUILD)-tsan -DCMAKE_BUILD_TYPE=Sanitize \
	  -DCMAKE_CXX_FLAGS_SANITIZE="-O1 -g1" -DSURETY_SANITIZE=thread
	@ninja -C $(BUILD)-tsan -j $(JOBS) $(TSAN_TESTS)
	@cd $(BUILD)-tsan && printf '%s\n' $(TSAN_TESTS) | xargs -P $(JOBS) -I{} env bin/{} --gtest_brief=1

fuzz: ## each fuzz target for FUZZ_SECONDS (20) over its corpus; needs clang
	@tools/install_packages build fuzz
	@[ -f $(BUILD)-fuzz/build.ninja ] || $(CMAKE) -S . -B $(BUILD)-fuzz -DCMAKE_BUILD_TYPE=Sanitize \
	  -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_CXX_FLAGS_SANITIZE="-O1 -g1" -DSURETY_TESTS=OFF -DSURETY_FUZZERS=ON \
	  -DSURETY_SANITIZE=address,undefined
	@tools/fuzz_smoke $(BUILD)-fuzz $(FUZZ_SECONDS) $(JOBS)

bench: build ## speed of the model on this machine: MODEL=name
	@$(SURETY) models pull $(MODEL) >/dev/null
	@$(SURETY) bench -m $(MODEL)

clean: ## remove everything that was built (models stay)
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-fuzz .cache
