// Command benchmodel writes a synthetic checkpoint of a real model's shape, to measure time and memory on.
//
// The weights are pseudo-random, roughly normal with the spread of trained ones, and the same on every machine. With
// -sparse they are holes in the file instead: a model of any size that takes no space.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"nibble/internal/half"
	"nibble/safetensors"
)

// shape is a Llama of some size.
type shape struct{ hidden, mlp, layers, heads, kv, vocab int }

var shapes = map[string]shape{
	"tinyllama-1.1b": {2048, 5632, 22, 32, 4, 32000},
	"llama-11b":      {5120, 13824, 40, 40, 8, 32000},
	"llama-8b":       {4096, 14336, 32, 32, 8, 128256},
}

func main() {
	out := flag.String("o", "", "folder to write")
	name := flag.String("shape", "tinyllama-1.1b", "tinyllama-1.1b, llama-8b, llama-11b (ten times tinyllama-1.1b)")
	sparse := flag.Bool("sparse", false, "holes instead of weights")
	flag.Parse()
	s, ok := shapes[*name]
	if !ok || *out == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(*out, s, *sparse); err != nil {
		fmt.Fprintln(os.Stderr, "benchmodel:", err)
		os.Exit(1)
	}
}

func (s shape) specs() []safetensors.Spec {
	var list []safetensors.Spec
	add := func(name string, dims ...int) {
		list = append(list, safetensors.Spec{Name: name + ".weight", DType: safetensors.BF16, Shape: dims})
	}
	head := s.hidden / s.heads
	add("model.embed_tokens", s.vocab, s.hidden)
	for i := range s.layers {
		p := fmt.Sprintf("model.layers.%d.", i)
		add(p+"input_layernorm", s.hidden)
		add(p+"self_attn.q_proj", s.hidden, s.hidden)
		add(p+"self_attn.k_proj", s.kv*head, s.hidden)
		add(p+"self_attn.v_proj", s.kv*head, s.hidden)
		add(p+"self_attn.o_proj", s.hidden, s.hidden)
		add(p+"post_attention_layernorm", s.hidden)
		add(p+"mlp.gate_proj", s.mlp, s.hidden)
		add(p+"mlp.up_proj", s.mlp, s.hidden)
		add(p+"mlp.down_proj", s.hidden, s.mlp)
	}
	add("model.norm", s.hidden)
	add("lm_head", s.vocab, s.hidden)
	return list
}

func (s shape) config() string {
	return fmt.Sprintf(`{
  "architectures": ["LlamaForCausalLM"],
  "hidden_act": "silu",
  "hidden_size": %d,
  "intermediate_size": %d,
  "max_position_embeddings": 2048,
  "model_type": "llama",
  "num_attention_heads": %d,
  "num_hidden_layers": %d,
  "num_key_value_heads": %d,
  "rms_norm_eps": 1e-05,
  "rope_theta": 10000.0,
  "tie_word_embeddings": false,
  "torch_dtype": "bfloat16",
  "vocab_size": %d
}
`, s.hidden, s.mlp, s.heads, s.layers, s.kv, s.vocab)
}

func write(dir string, s shape, sparse bool) error {
	plan, err := safetensors.NewPlan(s.specs(), map[string]string{"format": "pt"}, 0)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(s.config()), 0o666); err != nil {
		return err
	}
	if sparse {
		f := plan.Files[0]
		path := filepath.Join(dir, f.Name)
		if err := os.WriteFile(path, f.Header, 0o666); err != nil {
			return err
		}
		return os.Truncate(path, f.Size)
	}
	w, err := safetensors.Create(dir, plan)
	if err != nil {
		return err
	}
	defer w.Close()
	next := make(chan int)
	errs := make(chan error, 1)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := range next {
				if err := fill(w, plan.Files[0].Tensors[i], uint64(i)); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for i := range plan.Files[0].Tensors {
		next <- i
	}
	close(next)
	wg.Wait()
	close(errs)
	if err := <-errs; err != nil {
		return err
	}
	return w.Close()
}

// fill writes one tensor: the sum of four uniform variates, scaled; norms are about 1.
func fill(w *safetensors.Writer, t safetensors.Tensor, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 1))
	buf := make([]byte, 1<<20)
	for off := int64(0); off < t.Bytes(); off += int64(len(buf)) {
		p := buf[:min(int64(len(buf)), t.Bytes()-off)]
		for i := 0; i < len(p); i += 2 {
			x := r.Uint64()
			sum := int(x&0xffff) + int(x>>16&0xffff) + int(x>>32&0xffff) + int(x>>48) - 2*0xffff
			f := float32(sum) / 0xffff * 0.035
			if len(t.Shape) == 1 {
				f++
			}
			binary.LittleEndian.PutUint16(p[i:], half.BF16(f))
		}
		if err := w.WriteAt(t.Name, p, off); err != nil {
			return err
		}
	}
	return nil
}
