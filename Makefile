# make test      the tests
# make build     the binaries, static, in bin/
# make demo      the whole job on the built-in model: quantize, inspect, dequantize, measure
# make ci        everything that .ci/run checks
GO      ?= go
export CGO_ENABLED ?= 0
FUZZ    ?= 1s
TOOLS   = $(GO) tool -modfile=tools/go.mod
# Packages in which several goroutines share memory. Left out is what looks at figures: TestInvariance, for a third of the architectures, and
# TestThreads share what those tests do.
RACE    = ./convert ./fidelity ./internal/linalg ./internal/parallel ./internal/stage ./npu ./runtime ./safetensors ./tokenizer

.PHONY: build generate test demo race purego kernels amx emulated oracle manifests arm64 fused fuzz-short faults scale levels lint interop browser docs bench bench-go bench-model llama fidelity dist ci

build:
	$(GO) build -trimpath -o bin/ ./cmd/...

test:
	CGO_ENABLED=0 $(GO) test ./...

demo: build
	./scripts/demo.sh

# The assembly is what its generator writes.
generate:
	$(GO) generate ./internal/kernel
	git diff --exit-code internal/kernel

lint:
	@files="$$(gofmt -l $$(git ls-files '*.go'))"; if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	GOOS=windows $(GO) vet ./internal/kernel
	$(TOOLS) staticcheck ./...

race:
	CGO_ENABLED=1 $(GO) test -race -skip '$(SLOW)|TestSums|TestEveryArchitectureEveryFormat|TestQuality|TestFeedback|TestPromotionTop1|TestInvariance/^[a-lp-z]' $(RACE)

# The generic code alone, as on machines without kernels of their own; where the processor can, as the compiler writes it for GOAMD64=v3, with
# products and sums in one instruction. What make test knows of bytes must hold for it, too: builds of every architecture in every format (TestSums),
# and the whole job on the demo. All packages: make purego PUREGO=./...
PUREGO = ./asym ./awq ./calib ./compressed ./convert ./fidelity ./gguf/... ./gptq ./internal/half ./internal/kernel ./internal/linalg ./npu ./quant ./runtime
purego: export GOAMD64 = $(shell grep -qsw fma /proc/cpuinfo && grep -qsw avx2 /proc/cpuinfo && echo v3 || echo v1)
purego:
	$(GO) build -tags purego ./...
	$(GO) test -tags purego -skip '$(SLOW)|Test(EveryArchitectureEveryFormat|Invariance)/^[a-lp-z]' $(PUREGO)
	$(GO) test -tags purego -run TestScripts/demo ./internal/cli

# What computes, under every set of kernels that this machine has but the best, which make test runs, and generic, which make purego does: of
# that the choice by name is enough (all the same: make kernels GENERIC='$(KERNELS)'). Results are not taken from the cache, which does not see a variable that is read before the tests begin. Of
# convert the tests that compare bytes are enough.
KERNELS = ./asym ./awq ./fidelity ./gptq ./internal/half ./internal/kernel ./internal/linalg ./npu ./quant ./runtime
GENERIC = ./internal/kernel ./internal/linalg ./quant
kernels:
	@set -e; for k in $$($(GO) run ./internal/kernel/names | tail -n +2 | grep -v generic); do echo "NIBBLE_KERNEL=$$k"; export NIBBLE_KERNEL=$$k; \
		$(GO) test -count=1 $(KERNELS); $(GO) test -count=1 -run 'Bytes|Determinism|TestSums' ./convert; done
	NIBBLE_KERNEL=generic $(GO) test -count=1 $(GENERIC)

# AMX on a processor without it: two disassemblers, LLVM and Bochs judge the instructions, an emulator runs what uses them. The latter wants
# AVX-512 with VNNI and BF16, of which the rest of the set is made; without them nothing is emulated. Needs gcc, objdump, llvm-objdump-14 and
# llc-14 (Debian: gcc, binutils, llvm-14), and Bochs 3, which it puts into a folder of its own once. Every number of tokens, rows and
# groups, some 100,000 products: make amx SWEEP=-sweep
SWEEP =
export BOCHS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/nibble/bochs
$(BOCHS)/bochs:
	internal/kernel/amx/metal/install.sh $(BOCHS)

amx: REST = $(shell grep -qsw avx512_vnni /proc/cpuinfo && grep -qsw avx512_bf16 /proc/cpuinfo && echo yes)
amx: $(BOCHS)/bochs
	$(GO) -C internal/kernel/amx vet ./...
	$(GO) -C internal/kernel/amx test -count=1 . ./metal ./tile
	@if [ -z "$(REST)" ]; then echo "nothing is emulated: this processor has no AVX-512 with VNNI and BF16"; else $(MAKE) --no-print-directory emulated; fi

emulated:
	$(GO) -C internal/kernel/amx test -count=1 ./emu
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; $(GO) -C internal/kernel/amx build -o "$$dir/emu" ./emu; export NIBBLE_KERNEL=amx; \
		$(GO) test -count=1 -exec "$$dir/emu -dots 10000 run" ./internal/kernel; \
		$(GO) test -count=1 -exec "$$dir/emu -dots 1000 run" -run OnTiles ./internal/linalg ./convert; \
		$(GO) test -count=1 -timeout 60m -exec "$$dir/emu -dots 10000 run" -run 'TestBuilds|TestKernels|TestTails|TestA16OfPlain' ./runtime $(SWEEP); \
		$(GO) test -count=1 -exec "$$dir/emu -dots 1000 run" -run 'TestInvariance/^(mixtral-fused|gemma3-multimodal|qwen2)$$/.' ./runtime

# What takes long and looks for nothing that depends on kernels or on the machine: tests that write build after build, and the
# scripts of commands whose arithmetic the packages' own tests cover (last in a pattern: behind one that begins with a slash go test skips nothing); and TestTails, where there is one set or threads are looked for.
SLOW = TestTails|TestFaults|TestUmask|TestDeepJSON|TestClaims|TestBombs|TestScale$$|TestParts|TestGGUFParts|TestPartsKilled|TestFoldingChangesNothing|TestCalibratedArchitectures|TestCalibratedResume|TestScaled|TestSensitivity|TestKeptStatistics|TestBudget|TestChooseMany|TestGGUFBlocks|TestGGUFBudget|TestGGUFSensitivity|TestGGUFRoundTrip|TestGGUFFeedback|TestGGUFResume|TestGGUFInt8
SCRIPTS = /(badcalibration|bench|budget|ggufbudget|report|sensitivity|export|gguf|check|compare|perplexity|logits|generate)$$

# Linear algebra against gonum, which is in a module of its own.
oracle:
	$(GO) -C internal/linalg/oracle vet ./...
	$(GO) -C internal/linalg/oracle test ./...

# What deploy hands to Kubernetes, with its own types, which are in a module of their own.
manifests:
	$(GO) -C deploy/check vet ./...
	$(GO) -C deploy/check test ./...

# Needs qemu-aarch64 (Debian: qemu-user), some fifty times slower: what computes, reads files and writes them, and the whole job on the demo, but
# for graphs for phones, what differs by numbers of threads or pieces, and most architectures in every format and back (kept: those from m to o; TestSums has the bytes of
# all).
# All packages: make arm64 ARM64=./...
ARM64 = ./asym ./awq ./build ./compressed ./convert ./demo ./formats/... ./gguf/... ./gptq ./hf ./internal/half ./internal/kernel ./internal/linalg \
	./internal/parallel ./internal/stage ./quant ./runtime ./safetensors ./tokenizer
arm64: export GOARCH = arm64
arm64: export TEST_EMULATOR = qemu-aarch64
arm64:
	$(GO) vet ./...
	$(GO) test -exec qemu-aarch64 -skip '$(SLOW)|TestCalibratedDeterminism|TestGGUFDeterminism|TestInt8Inputs|TestInvariance|TestEveryArchitectureEveryFormat/^[a-lp-z]|$(SCRIPTS)' $(ARM64)
	$(GO) test -exec qemu-aarch64 -run 'TestScripts/demo' ./internal/cli

# Every fuzz target for a few seconds: make fuzz-short FUZZ=60s for longer.
fuzz-short:
	GO=$(GO) FUZZ=$(FUZZ) ./scripts/fuzz.sh

# Every command is disturbed POINTS times: killed, out of disk or memory, any step towards the output failing, source or output taken away.
POINTS  ?= 100
faults:
	FAULT_POINTS=$(POINTS) CGO_ENABLED=0 $(GO) test -count=1 -timeout 2h -run TestFaults -v ./internal/cli

# One layer each of models of 8B, 70B and 400B, and what that says of the whole. TestScale plans all of them.
scale: build
	GO=$(GO) ./scripts/scale.sh

# No product and sum that arm64, or GOAMD64=v3, would make one instruction of, in what decides bytes.
fused:
	GO=$(GO) ./scripts/fused.sh

# The demo by binaries for GOAMD64=v1, v2 and v3. make test and make purego hold v1 and v3 against the same sums.
levels:
	GO=$(GO) ./scripts/levels.sh

# Other people's software judges our files, in a Python environment of its own.
interop: build
	GO=$(GO) ./interop/run.sh

# The page of runtime report in a real browser, with pictures in interop/out/browser. Needs Debian's chromium, so ci does without.
browser: build
	./interop/browser.sh

# Manual pages, and completions for bash, zsh and fish, in bin/docs. The writer is a module of its own.
docs:
	rm -rf bin/docs
	$(GO) -C internal/docgen vet ./...
	$(GO) -C internal/docgen run . ../../bin/docs

# One table: models that are not there, against what the machine can do, and against llama-bench where it is:
# make bench LLAMA_CPP=/path/to/bin LLAMA_MODELS=/folder/with/tinyllama-1.1b-Q4_K_M.gguf/and/others
bench: build
	GO=$(GO) ./scripts/bench.sh

# GGUF files of ours beside llama.cpp's, judged by both programs: make llama LLAMA_CPP=/path/to/bin MODEL=folder TEXT=file CALIB=file
llama: build
	$(GO) run ./internal/llamatable -llama "$(LLAMA_CPP)" -model "$(MODEL)" -text "$(TEXT)" -calib "$(CALIB)"

# What methods, groups and grids lose, see the script: MODELS="demo folder" TEXT=file CALIB=file make fidelity
fidelity: build
	./scripts/fidelity.sh

# The Go benchmarks, in the form that benchstat compares: make bench-go COUNT=10 >new.txt
COUNT   ?= 1
bench-go:
	@$(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) ./...

# A synthetic checkpoint of 1.1 billion parameters, 2.2 GB.
bench-model:
	$(GO) run ./internal/benchmodel -o $${DIR:-/tmp/nibble-bench-1.1b}

# Also a bill of materials and a container image.
dist:
	GO=$(GO) ./scripts/dist.sh

ci: lint generate test docs race purego kernels amx oracle manifests arm64 fused fuzz-short interop
