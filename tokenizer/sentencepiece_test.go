package tokenizer

import "testing"

func TestSentencePiece(t *testing.T) {
	var g struct {
		Models []struct {
			Name  string
			Model []byte
			Cases []goldenCase
		}
	}
	readGolden(t, "sentencepiece.json", &g)
	for _, m := range g.Models {
		t.Run(m.Name, func(t *testing.T) {
			tok, err := FromSentencePiece(m.Model)
			if err != nil {
				t.Fatal(err)
			}
			checkCases(t, tok, m.Cases)
			checkAround(t, tok, m.Cases)
		})
	}
}
