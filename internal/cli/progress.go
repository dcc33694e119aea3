package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// progress shows a bar with rate and time left on a terminal, and a line for every finished layer elsewhere.
type progress struct {
	w     io.Writer
	name  string
	total int64
	done  int64
	start time.Time
	bar   *progressbar.ProgressBar

	label func(job string) string // layer that a job belongs to
	left  map[string]int64        // input bytes of a layer that are still to come
	note  string                  // behind what is reported of a layer

	shown  string // layer in front of the bar
	staged bool   // the front of the bar says what calibration is about
}

// newProgress prepares the display of a run over the given jobs. It returns nil where nothing is to be shown.
func newProgress(w io.Writer, name string, quiet bool, costs map[string]int64, label func(job string) string) *progress {
	if quiet {
		return nil
	}
	p := &progress{w: w, name: name, start: time.Now(), label: label, left: map[string]int64{}}
	for job, cost := range costs {
		p.total += cost
		p.left[label(job)] += cost
	}
	p.bar = newBar(w, p.total, name, progressbar.OptionShowBytes(true))
	return p
}

// newBar returns a bar on a terminal, nil elsewhere.
func newBar(w io.Writer, total int64, description string, more ...progressbar.Option) *progressbar.ProgressBar {
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return progressbar.NewOptions64(total, append(more, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(description),
		progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionFullWidth())...)
}

// stage tells what calibration is about: on a terminal now, elsewhere the loss with the next finished layer.
func (p *progress) stage(layer int, stage string, loss float64) {
	if p == nil {
		return
	}
	if loss > 0 {
		p.note = fmt.Sprintf(", loss %.5f", loss)
	}
	if p.bar == nil {
		return
	}
	if layer >= 0 {
		stage = fmt.Sprintf("layer %d: %s", layer, stage)
	}
	p.staged = true
	p.bar.Describe(p.name + ": " + stage + p.note)
}

// report accounts for input bytes of a job. Calls do not overlap.
func (p *progress) report(job string, bytes int64) {
	if p == nil {
		return
	}
	p.done += bytes
	l := p.label(job)
	if p.bar != nil {
		if l != "" && l != p.shown && !p.staged {
			p.shown = l
			p.bar.Describe(p.name + ": " + l)
		}
		_ = p.bar.Add64(bytes) // a terminal that is gone is no reason to stop
		return
	}
	if bytes == 0 || l == "" {
		return
	}
	if p.left[l] -= bytes; p.left[l] > 0 {
		return
	}
	spent := time.Since(p.start).Seconds()
	rate := float64(p.done) / max(spent, 1e-9)
	fmt.Fprintf(p.w, "%s: %s done, %d %%, %.1f MB/s, %.0f s left%s\n", p.name, l, 100*p.done/max(p.total, 1), rate/1e6,
		float64(p.total-p.done)/rate, p.note)
}

// finish removes the bar.
func (p *progress) finish() {
	if p != nil && p.bar != nil {
		_ = p.bar.Finish()
	}
}

// resumeCommand is the command line that goes on where the one of args was interrupted.
func resumeCommand(args []string) string {
	var words []string
	resume := false
	for _, a := range args {
		if a == "--overwrite" || a == "--overwrite=true" {
			continue
		}
		resume = resume || a == "--resume" || a == "--resume=true"
		words = append(words, shellWord(a))
	}
	if !resume {
		words = append(words, "--resume")
	}
	return strings.Join(words, " ")
}

// shellWord quotes what a shell would take apart.
func shellWord(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("-_./=,:+@%", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) || s == "" {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// counter shows how much there is of what is wanted: a bar on a terminal, a line for every tenth elsewhere.
type counter struct {
	cmd   *cobra.Command
	what  string
	start time.Time
	tenth int
	bar   *progressbar.ProgressBar
}

// newCounter returns nil where nothing is to be shown.
func newCounter(cmd *cobra.Command, quiet bool, what string, wanted int) *counter {
	if quiet {
		return nil
	}
	return &counter{cmd: cmd, what: what, start: time.Now(), bar: newBar(cmd.ErrOrStderr(), int64(wanted), what, progressbar.OptionShowIts())}
}

func (c *counter) report(done, wanted int) {
	if c == nil {
		return
	}
	if c.bar != nil {
		_ = c.bar.Set(min(done, wanted))
		return
	}
	if tenth := 10 * done / max(wanted, 1); tenth > c.tenth {
		c.tenth = tenth
		spent := time.Since(c.start).Seconds()
		fmt.Fprintf(c.cmd.ErrOrStderr(), "%s: %s: %d of %d tokens, %.0f s left\n", c.cmd.Name(), c.what, done, wanted, spent*float64(wanted-done)/float64(max(done, 1)))
	}
}

func (c *counter) finish() {
	if c != nil && c.bar != nil {
		_ = c.bar.Finish()
	}
}

// reportNodes reports parts of a job whose number is known when it begins.
func (c *counter) reportNodes(done, all int) {
	if c == nil {
		return
	}
	if c.bar != nil {
		c.bar.ChangeMax(all)
		_ = c.bar.Set(done)
		return
	}
	if tenth := 10 * done / max(all, 1); tenth > c.tenth {
		c.tenth = tenth
		fmt.Fprintf(c.cmd.ErrOrStderr(), "%s: %s: %d %%\n", c.cmd.Name(), c.what, 10*tenth)
	}
}
