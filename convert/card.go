package convert

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"nibble/fidelity"
	"nibble/internal/stage"
)

// CardName is the file in a build that says for people what it is. The card of the model's author, README.md, stays as it is.
const CardName = "README.nibble.md"

// checkBytes is room for what a check adds to a card.
const checkBytes = 512

// card writes the text.
func (p *Plan) card(r *Report) []byte {
	var b bytes.Buffer
	name := filepath.Base(p.Source.Path)
	if p.Source.Path == "" {
		name = "the built-in demo model"
	}
	fmt.Fprintf(&b, "# %s in %s\n\n", name, p.Format.Name())
	fmt.Fprintf(&b, "A quantized build of %s (%s), made by %s for %s. What the model is, and under which licence, the author's card says.\n\n",
		name, r.Source.Architecture, r.Tool, p.Target)
	row := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", what, fmt.Sprintf(format, args...))
	}
	b.WriteString("| | |\n|---|---|\n")
	if x := p.Allotment; x != nil {
		row("bits and groups", "by matrix, to lose least within %v", x.Budget)
	} else {
		row("bits and groups", "%s, unless the report says otherwise", p.Spec)
	}
	row("bits per weight", "%.4f: all bytes of all tensors over %d parameters", r.Totals.BitsPerWeight, r.Totals.Parameters)
	row("method", "%s", p.Spec.Method)
	if c := r.Calibration; c != nil {
		row("calibration", "%s: %d sequences, %d tokens, SHA-256 %s", c.Text, c.Sequences, c.Tokens, c.SHA256)
	}
	row("signal to noise", "%.2f dB over all quantized weights, lowest %.2f dB: `%s`", float64(r.Totals.SQNR), float64(r.Totals.SQNRMin), r.Totals.SQNRMinTensor)
	if c, ok := r.Check.(*fidelity.Comparison); ok {
		row("KL divergence", "%.5f nats a token (95 %%: %.5f to %.5f), %d positions", c.KLMean, c.KLMeanCI[0], c.KLMeanCI[1], c.Positions)
		row("perplexity", "%.4f, the original's %.4f: %.4f times", c.Build, c.Reference, c.Ratio)
		row("top-1 agreement", "%.2f %%", 100*c.Top1)
	}
	if r.Command != "" {
		fmt.Fprintf(&b, "\nThe same bytes again, from the same original:\n\n    %s\n", r.Command)
	}
	fmt.Fprintf(&b, "\n`quantize verify FOLDER` finds out whether all files are still what they were. `%s` has every matrix, and the\nSHA-256 of every file of the original and of this build.\n", ReportName)
	return b.Bytes()
}

// cardSize is room for the card with the widest figures; as in the report, a command takes steps of 256 bytes.
func (p *Plan) cardSize() int64 {
	r := p.report(nil, nil)
	n := len(p.card(r)) + 256 - len(r.Command)%256
	if p.Measured {
		n += checkBytes
	}
	if x := p.Allotment; x != nil {
		n += 32 - len(x.Budget.String())
	}
	return int64(n)
}

// writeCard writes the card, filled up with spaces to the planned size.
func (r *Run) writeCard(report *Report) error {
	raw := bytes.TrimSuffix(r.card(report), []byte("\n"))
	for _, f := range r.Files {
		if f.Name == CardName {
			n := int(f.Size) - len(raw) - 1
			if n < 0 {
				return fmt.Errorf("convert: %s: %d bytes longer than planned", CardName, -n)
			}
			raw = fmt.Appendf(raw, "%s\n", strings.Repeat(" ", n))
		}
	}
	return stage.WriteFile(filepath.Join(r.dir.Path(), CardName), raw)
}
