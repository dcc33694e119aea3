//go:build unix

package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"nibble/internal/synthetic"
	"nibble/safetensors"
)

// sparse writes a checkpoint of a config's shape in shards of 4 GB at most, whose weights are holes in the files.
func sparse(t *testing.T, config string) (dir string, shards int) {
	t.Helper()
	model, err := synthetic.New([]byte(config), synthetic.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	var specs []safetensors.Spec
	for _, x := range model.Weights.Files[0].Tensors {
		specs = append(specs, safetensors.Spec{Name: x.Name, DType: x.DType, Shape: x.Shape})
	}
	plan, err := safetensors.NewPlan(specs, nil, 4_000_000_000)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for _, f := range plan.Files {
		put(t, filepath.Join(dir, f.Name), f.Header)
		if err := os.Truncate(filepath.Join(dir, f.Name), f.Size); err != nil {
			t.Fatal(err)
		}
	}
	if index := plan.Index(); index != nil {
		put(t, filepath.Join(dir, "model.safetensors.index.json"), index)
	}
	put(t, filepath.Join(dir, "config.json"), model.Config)
	return dir, len(plan.Files)
}

// Models of 8, 70 and 400 billion parameters, the last a mixture of 128 experts in 200 shards with 38,000 matrices, are planned and
// checked against their loader's rules in less than 300 MB. Numbers of parameters: as the models' cards state them; of the mixture, counted
// by hand: 97 layers of 2·5120·8192 + 2·5120·512 in attention, 2·128 and 2·5120 in norms, 128·5120 in the router, 128·3·5120·2048 in
// experts; 2·151936·5120 in embedding and head, 5120 in the last norm.
func TestScale(t *testing.T) {
	for _, c := range []struct {
		name, config       string
		parameters, shards int64
		matrices           int64
	}{
		{"8B", `{"architectures":["LlamaForCausalLM"],"hidden_size":4096,"intermediate_size":14336,"max_position_embeddings":8192,"num_attention_heads":32,
			"num_hidden_layers":32,"num_key_value_heads":8,"rms_norm_eps":1e-05,"rope_theta":500000.0,"tie_word_embeddings":false,"vocab_size":128256}`,
			8_030_261_248, 5, 225},
		{"70B", `{"architectures":["LlamaForCausalLM"],"hidden_size":8192,"intermediate_size":28672,"max_position_embeddings":8192,"num_attention_heads":64,
			"num_hidden_layers":80,"num_key_value_heads":8,"rms_norm_eps":1e-05,"rope_theta":500000.0,"tie_word_embeddings":false,"vocab_size":128256}`,
			70_553_706_496, 36, 561},
		{"400B", `{"architectures":["Qwen3MoeForCausalLM"],"attention_bias":false,"decoder_sparse_step":1,"head_dim":128,"hidden_size":5120,
			"intermediate_size":12288,"max_position_embeddings":40960,"mlp_only_layers":[],"moe_intermediate_size":2048,"norm_topk_prob":true,
			"num_attention_heads":64,"num_experts":128,"num_experts_per_tok":8,"num_hidden_layers":97,"num_key_value_heads":4,"rms_norm_eps":1e-06,
			"rope_theta":1000000.0,"tie_word_embeddings":false,"vocab_size":151936}`,
			97*(2*5120*8192+2*5120*512+2*128+2*5120+128*5120+128*3*5120*2048) + 2*151936*5120 + 5120, 200, 97*(4+128*3) + 1},
	} {
		dir, shards := sparse(t, c.config)
		if int64(shards) < c.shards {
			t.Errorf("%s: %d shards", c.name, shards)
		}
		name, prefix := emulated(os.Getenv("PATH"), "quantize")
		cmd := exec.Command(name, append(prefix, dir, "--format", "gptq", "--dry-run", "--json")...)
		cmd.Dir = t.TempDir()
		raw, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		t.Logf("%s: %d shards, %d MB, %v of processor time", c.name, shards, usage.Maxrss>>10, cmd.ProcessState.UserTime())
		if usage.Maxrss > 300<<10 { // KiB
			t.Errorf("%s: %d KiB of memory", c.name, usage.Maxrss)
		}
		var plan struct {
			Parameters, Bytes int64
			Files             []struct{ Bytes int64 }
			Tensors           []struct {
				Name          string
				Bytes, Offset int64
			}
		}
		if err := json.Unmarshal(raw, &plan); err != nil {
			t.Fatal(err)
		}
		var files, codes, matrices int64
		for _, f := range plan.Files {
			files += f.Bytes
		}
		for _, x := range plan.Tensors {
			if x.Offset < 0 || x.Bytes < 0 {
				t.Errorf("%s: %s at %d", c.name, x.Name, x.Offset)
			}
			if filepath.Ext(x.Name) == ".qweight" {
				codes += x.Bytes
				matrices++
			}
		}
		if plan.Parameters != c.parameters || files != plan.Bytes || matrices != c.matrices || 2*codes > plan.Parameters {
			t.Errorf("%s: %d parameters, want %d; files of %d bytes, %d in all; %d matrices, want %d, with %d bytes of codes", c.name,
				plan.Parameters, c.parameters, files, plan.Bytes, matrices, c.matrices, codes)
		}
	}
}
