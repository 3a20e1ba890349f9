# One line a target; what it does is in scripts/. Settings are environment or make variables:
# SOURCE GIT_URL VLLM_DIR RESOLVE CHECK DIST DEVICE KERNELS TARGETS DRY_RUN SUITES CHANGED ONLY TRANSFORMERS HUB BENCH
# ROUNDS AGAINST RECORD EACH FORK ONTO BRANCH PATCHES TAG SHA256 COMMIT (see README.md).
PYTHON ?= python3
RUN = @$(PYTHON) -m scripts

.NOTPARALLEL: # a target may need what the one before it made
.PHONY: help fetch verify apply test build export check pick roll status lint doctor bench prove baseline clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10
apply: ## put the series on the pinned vLLM in build/vllm
	$(RUN) apply
test: ## install what is needed, run the suites for this machine
	$(RUN) test
doctor: ## is this machine fit for the device and the kernels
	$(RUN) doctor
build: ## make build/venv with the patched vLLM and kernels
	$(RUN) build
export: ## write the commits of build/vllm back as patches/ (CHECK=1 only compares, DIST=dir for others)
	$(RUN) export
check: ## style, types, lint, apply, export check (EACH=1 patch by patch, PATCHES=1,3-4 these)
	$(RUN) check
pick: ## put the series on a new branch of a fork (FORK=path ONTO=ref)
	$(RUN) pick
roll: ## move the pin to a new release (TAG=v0.29.0)
	$(RUN) roll
status: ## pin, series, what is applied, drift
	$(RUN) status
lint: ## rules over the series
	$(RUN) lint
fetch: ## get the pinned source, nothing else
	$(RUN) fetch
verify: ## prove the source's hash, compare the sources at hand
	$(RUN) verify
bench: ## measure base against patched, in build/reports/bench.html (BENCH=part AGAINST=v0.32.0)
	$(RUN) bench
prove: ## take each hunk away: does a test notice (PATCHES=1,3-4)
	$(RUN) prove
baseline: ## record what upstream's tests do without the series
	$(RUN) baseline
clean: ## remove the environment and reports, keep the work clone and downloads
	$(RUN) clean
