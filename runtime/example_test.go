package runtime_test

import (
	"fmt"

	"nibble/build"
	"nibble/demo"
	"nibble/hf"
	"nibble/runtime"
	"nibble/tokenizer"
)

// A build of any format is opened, loaded and asked for the next token, again and again. hf.Find opens a folder on disk.
func Example() {
	folder, err := hf.NewFolder("", demo.FS(), "")
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := build.Open(folder, hf.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Set.Close()
	m, err := runtime.Load(b, runtime.Config{Mode: runtime.F32, Threads: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	words, err := tokenizer.Load(b.FS)
	if err != nil {
		fmt.Println(err)
		return
	}
	session, err := m.NewSession(64, runtime.KVF32)
	if err != nil {
		fmt.Println(err)
		return
	}
	tokens, err := words.Encode("The ", true)
	if err != nil {
		fmt.Println(err)
		return
	}
	greedy := runtime.NewSampler(runtime.Sampling{}) // temperature 0
	text := tokens
	for range 8 {
		var next int32
		err := m.Forward([]runtime.Input{{Session: session, Tokens: tokens}}, func(_, _ int, logits []float32) {
			next = greedy.Next(logits, text) // logits [vocab]
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		tokens = []int32{next}
		text = append(text, next)
	}
	fmt.Println(session.Len(), "tokens are in the cache")
	answer, err := words.Decode(text, true)
	fmt.Printf("%q %v\n", answer, err)
	// Output:
	// 9 tokens are in the cache
	// "The Victoria,\nThat" <nil>
}
