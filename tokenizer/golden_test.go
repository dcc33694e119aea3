package tokenizer

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// golden is testdata/golden.json: what the tokenizers library of Hugging Face answers.
type golden struct {
	Texts        []string
	Tokens       [][]string
	Normalizer   []stageGolden[string]   `json:"normalizer"`
	PreTokenizer []stageGolden[[]string] `json:"pre_tokenizer"`
	Decoder      []stageGolden[string]   `json:"decoder"`
	Whole        []struct {
		Name      string
		Tokenizer json.RawMessage
		Cases     []goldenCase
	}
}

type stageGolden[T any] struct {
	Spec json.RawMessage
	Out  []T // by text, or by token list
}

// goldenCase is a text with its ids, without and with special tokens, and what these decode to.
type goldenCase struct {
	Text    string
	IDs     []int32
	Special []int32 // absent where it is the same
	Decoded string
	Plain   *string // without special tokens
}

func readGolden(t testing.TB, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

func TestNormalizers(t *testing.T) {
	var g golden
	readGolden(t, "golden.json", &g)
	for _, stage := range g.Normalizer {
		n, err := newNormalizer(stage.Spec, 0)
		if err != nil {
			t.Fatalf("%.80s: %v", stage.Spec, err)
		}
		for i, text := range g.Texts {
			got, _, err := n(text, true)
			if err != nil || got != stage.Out[i] {
				t.Errorf("%.80s: %q: %q, want %q (%v)", stage.Spec, text, got, stage.Out[i], err)
			}
		}
	}
}

func TestPretokenizers(t *testing.T) {
	var g golden
	readGolden(t, "golden.json", &g)
	for _, stage := range g.PreTokenizer {
		steps, mapBytes, err := newPretokenizers(stage.Spec)
		if err != nil {
			t.Fatalf("%.80s: %v", stage.Spec, err)
		}
		tok := Tokenizer{pretokenize: steps}
		for i, text := range g.Texts {
			pieces := []piece{}
			if text != "" {
				w := tok.worker()
				w.begin(len(text))
				if pieces, err = tok.cut([]piece{{text, -1, true}}, w); err != nil {
					t.Fatal(err)
				}
			}
			got := []string{}
			for _, p := range pieces {
				if mapBytes {
					p.text = spellBytes(p.text)
				}
				got = append(got, p.text)
			}
			if diff := cmp.Diff(stage.Out[i], got); diff != "" {
				t.Errorf("%.120s: %q (-want +got)\n%s", stage.Spec, text, diff)
			}
		}
	}
}

func TestDecoders(t *testing.T) {
	var g golden
	readGolden(t, "golden.json", &g)
	for _, stage := range g.Decoder {
		makers, err := newDecoder(stage.Spec)
		if err != nil {
			t.Fatalf("%.80s: %v", stage.Spec, err)
		}
		for i, tokens := range g.Tokens {
			tok := Tokenizer{decoder: makers, tokens: tokens, hidden: make([]bool, len(tokens))}
			ids := make([]int32, len(tokens))
			for j := range ids {
				ids[j] = int32(j)
			}
			got, err := tok.Decode(ids, false)
			if err != nil || got != stage.Out[i] {
				t.Errorf("%.200s: %q: %q, want %q (%v)", stage.Spec, tokens, got, stage.Out[i], err)
			}
		}
	}
}

func TestWholeTokenizers(t *testing.T) {
	var g golden
	readGolden(t, "golden.json", &g)
	for _, whole := range g.Whole {
		t.Run(whole.Name, func(t *testing.T) {
			tok, err := FromJSON(whole.Tokenizer)
			if err != nil {
				t.Fatal(err)
			}
			checkCases(t, tok, whole.Cases)
			checkAround(t, tok, whole.Cases)
		})
	}
}

// checkAround compares what stands around texts with what Encode puts there.
func checkAround(t *testing.T, tok *Tokenizer, cases []goldenCase) {
	t.Helper()
	before, after := tok.Around()
	for _, c := range cases {
		want, err := tok.Encode(c.Text, true)
		if got := slices.Concat(before, c.IDs, after); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q: %v and %v around it make %v, want %v (%v)", c.Text, before, after, got, want, err)
		}
	}
}

// checkCases compares ids and texts, those of a stream too.
func checkCases(t *testing.T, tok *Tokenizer, cases []goldenCase) {
	t.Helper()
	wrong := 0
	check := func(what, text string, want, got any, err error) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			if wrong++; wrong <= 10 {
				t.Errorf("%s of %q: %v (-want +got)\n%s", what, text, err, diff)
			}
		}
	}
	for _, c := range cases {
		got, err := tok.Encode(c.Text, false)
		check("ids", c.Text, c.IDs, got, err)
		special := c.Special
		if special == nil {
			special = c.IDs
		}
		if c.Plain == nil { // SentencePiece, which decodes without special tokens
			plain, err := tok.Decode(c.IDs, true)
			check("decoding", c.Text, c.Decoded, plain, err)
			continue
		}
		got, err = tok.Encode(c.Text, true)
		check("special ids", c.Text, special, got, err)
		text, err := tok.Decode(special, false)
		check("decoding", c.Text, c.Decoded, text, err)
		text, err = tok.Decode(special, true)
		check("decoding without special tokens", c.Text, *c.Plain, text, err)
		text, err = streamed(tok, special)
		check("stream", c.Text, *c.Plain, text, err)
	}
	if wrong > 0 {
		t.Errorf("%d of %d cases are wrong", wrong, len(cases))
	}
}

func streamed(tok *Tokenizer, ids []int32) (string, error) {
	s := tok.Stream(true)
	var b strings.Builder
	for _, id := range ids {
		text, err := s.Next(id)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	text, err := s.Flush()
	b.WriteString(text)
	return b.String(), err
}
