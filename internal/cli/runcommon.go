package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"nibble/build"
	"nibble/internal/kernel"
	"nibble/internal/machine"
	"nibble/runtime"
	"nibble/tokenizer"
)

// running are the flags of commands that run a model.
type running struct {
	common
	source
	activations, cache, kernel string
	context                    int
	cpus                       string

	mode runtime.Mode // of activations
	kv   runtime.KV   // of cache
	cpu  []int        // of cpus
}

// config returns how a model is to be run.
func (r *running) config() runtime.Config {
	return runtime.Config{Mode: r.mode, Threads: r.threads, CPUs: r.cpu}
}

func (r *running) register(cmd *cobra.Command, context string) {
	r.common.register(cmd)
	r.registerModel(cmd, "f32", "", "f32")
	cmd.Flags().IntVar(&r.context, "context", 0, context)
}

// registerModel adds the flags that say what model is run how; more goes before the values of activations.
func (r *running) registerModel(cmd *cobra.Command, activations, more, cache string) {
	r.source.register(cmd)
	f := cmd.Flags()
	f.StringVar(&r.activations, "activations", activations, more+"f32 (the reference), a16 (bf16), a8 (int8 per group), a8-row (int8 per token): inputs of matrices")
	f.StringVar(&r.cache, "kv", cache, "f32, bf16, f16, int8: keys and values of earlier tokens")
	f.StringVar(&r.kernel, "kernel", "", "set of kernels to compute with; this machine has "+strings.Join(kernel.All(), ", ")+
		" (default: $NIBBLE_KERNEL, or the first)")
	f.StringVar(&r.cpus, "cpus", "", "processors to pin the threads to, one each in turn: 0-3,8 (Linux; default: where the system puts them)")
}

// check refuses values that no flag has, and reads them.
func (r *running) check() error {
	if err := r.common.check(); err != nil {
		return err
	}
	var ok bool
	if r.mode, ok = runtime.Modes[r.activations]; !ok {
		return usagef("--activations %q: want %s", r.activations, names(runtime.Modes))
	}
	if r.kv, ok = runtime.KVs[r.cache]; !ok {
		return usagef("--kv %q: want %s", r.cache, names(runtime.KVs))
	}
	if r.kernel != "" {
		if err := kernel.Select(r.kernel); err != nil {
			return coded{err, exitUsage}
		}
	}
	if _, err := kernel.Active(); err != nil {
		return coded{fmt.Errorf("NIBBLE_KERNEL: %w", err), exitUsage}
	}
	var err error
	if r.cpus != "" {
		if r.cpu, err = machine.ParseCPUs(r.cpus); err != nil {
			return usagef("--cpus: %w", err)
		}
	}
	if r.context < 0 {
		return usagef("--context %d: want a number of tokens, or 0 for the default", r.context)
	}
	return nil
}

// names lists the keys of a table of flag values.
func names[V cmp.Ordered](table map[string]V) string {
	list := slices.Collect(maps.Keys(table))
	slices.SortFunc(list, func(a, b string) int { return cmp.Compare(table[a], table[b]) })
	return strings.Join(list, ", ")
}

// runner is a loaded model.
type runner struct {
	*runtime.Model
	name  string
	build *build.Build
	kv    runtime.KV

	tokenizer *tokenizer.Tokenizer // nil until language
	front     []int32              // what the tokenizer puts in front of every text
}

// open loads the model that args name, the demo if none.
func (r *running) open(cmd *cobra.Command, args []string) (*runner, error) {
	folder, name, err := openModel(args)
	if err != nil {
		return nil, err
	}
	b, err := r.source.open(folder)
	if err != nil {
		return nil, err
	}
	if !r.quiet {
		notes(cmd, b.Notes)
	}
	x, err := newRunner(b, name, r.kv, r.config())
	if err != nil {
		b.Set.Close()
	}
	return x, err
}

// newRunner loads a build that is open.
func newRunner(b *build.Build, name string, kv runtime.KV, c runtime.Config) (*runner, error) {
	m, err := loadModel(b, c)
	if err != nil {
		return nil, err
	}
	return &runner{Model: m, name: name, build: b, kv: kv}, nil
}

// close ends the model and the build.
func (x *runner) close() {
	x.Close()
	x.build.Set.Close()
}

// language loads the tokenizer.
func (x *runner) language() error {
	t, err := tokenizer.Load(x.build.FS)
	if err != nil {
		return coded{fmt.Errorf("%s: %w", x.name, err), exitInput}
	}
	if t.Size() > x.Width() {
		return coded{fmt.Errorf("%s: the tokenizer has %d tokens, the model's embedding %d rows: they do not belong together; restore the tokenizer of this model",
			x.name, t.Size(), x.Width()), exitInput}
	}
	x.tokenizer = t
	x.front, _ = t.Around()
	return nil
}

// begin encodes the beginning of a text: with what the tokenizer puts in front, without what it puts behind.
func (x *runner) begin(text string) ([]int32, error) {
	ids, err := x.tokenizer.Encode(text, false)
	if err != nil {
		return nil, inputError(err)
	}
	return append(slices.Clone(x.front), ids...), nil
}

// endTokens returns the tokens that end a text: from generation_config.json, else from config.json.
func endTokens(b *build.Build, name string) ([]int32, error) {
	raw := []byte("{}")
	if slices.Contains(b.Files, "generation_config.json") {
		f, err := b.FS.Open("generation_config.json")
		if err != nil {
			return nil, inputError(err)
		}
		defer f.Close()
		const most = 1 << 20
		if raw, err = io.ReadAll(io.LimitReader(f, most)); err != nil {
			return nil, inputError(err)
		}
		if !json.Valid(raw) {
			return nil, coded{fmt.Errorf("%s: not JSON", b.In("generation_config.json")), exitInput}
		}
	}
	const key = "eos_token_id"
	for _, e := range []gjson.Result{gjson.GetBytes(raw, key), gjson.GetBytes(b.Config.Raw(), key),
		gjson.GetBytes(b.Config.Raw(), "text_config."+key)} {
		var list []int32
		for _, id := range e.Array() {
			if id.Type != gjson.Number || float64(id.Int()) != id.Num || id.Num < 0 || id.Num > math.MaxInt32 {
				return nil, coded{fmt.Errorf("%s: eos_token_id is %s, want a token or a list of tokens", name, e.Raw), exitInput}
			}
			list = append(list, int32(id.Int()))
		}
		if list != nil {
			return list, nil
		}
	}
	return nil, nil
}

// readText reads a text file.
func readText(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", inputError(err)
	}
	return validText(path, raw)
}

func validText(name string, raw []byte) (string, error) {
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && n == 1 {
			return "", coded{fmt.Errorf("%s: not UTF-8 text: byte %#02x at offset %d; convert it first (iconv -t utf-8)", name, raw[i], i), exitInput}
		}
		i += n
	}
	return string(raw), nil
}

// fit refuses a context that the models are not made for or that the memory does not hold, and says what will be used.
func (r *running) fit(cmd *cobra.Command, context int, models ...*runner) error {
	var weights int64
	for _, x := range models {
		weights += x.Bytes()
		if limit := x.Limit(); context > limit && !x.Arch.Stretches() {
			return usagef("--context %d: %s is made for %d tokens; --context %d is the longest that fits", context, x.name, limit, limit)
		}
	}
	caches := func(context int) (n int64) {
		for _, x := range models {
			n += x.CacheBytes(context, x.kv)
		}
		return n
	}
	if room, known := freeMemory(); known && caches(context) > room.bytes {
		return room.short(caches(context), fmt.Sprintf("a cache for %d tokens beside the weights", context),
			fmt.Sprintf("--context %d is the longest that fits", fitting(context, room.bytes, caches)))
	}
	if !r.quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s of weights, %s of cache for %d tokens\n", cmd.Name(), megabytes(weights),
			megabytes(caches(context)), context)
	}
	return nil
}

// fitting returns the longest context, up to limit, whose caches need at most room bytes.
func fitting(limit int, room int64, caches func(context int) int64) int {
	return sort.Search(limit, func(i int) bool { return caches(i+1) > room })
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
