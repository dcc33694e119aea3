package bench

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Subject is what a table's rows are about.
type Subject struct {
	Model      string
	Bytes      int64 // of all tensors
	Parameters int64
	Mode       string // of activations
}

// Table prints results in Markdown.
func Table(w io.Writer, s Subject, results []*Result) error {
	rows := [][]string{{"model", "size", "params", "mode", "threads", "test", "t/s", "median", "GB/s", "of ceiling", "of peak"}}
	for _, r := range results {
		read := ""
		if r.Read > 0 {
			read = fmt.Sprintf("%.1f", r.Read)
		}
		rows = append(rows, []string{s.Model, megabytes(s.Bytes), count(s.Parameters), s.Mode,
			fmt.Sprint(r.Threads), r.Name, fmt.Sprintf("%.2f ± %.2f", r.Mean, r.Stddev), fmt.Sprintf("%.2f", r.Median),
			read, Percent(r.ShareOfCeiling), Percent(r.ShareOfPeak)})
	}
	return Markdown(w, rows, "llllrlrrrrr")
}

// count writes a number of parameters.
func count(n int64) string {
	if n >= 1e9 {
		return fmt.Sprintf("%.2f B", float64(n)/1e9)
	}
	return fmt.Sprintf("%.2f M", float64(n)/1e6)
}

// Percent writes a share, nothing for 0.
func Percent(share float64) string {
	if share == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

// Print prints a profile: the time of operations in a step, in microseconds.
func (p *Profile) Print(w io.Writer) error {
	rows := [][]string{{"operation", "µs", "share"}}
	for _, o := range p.Operations {
		rows = append(rows, []string{o.Name, fmt.Sprintf("%.1f", 1e6*o.Time), fmt.Sprintf("%.1f %%", 100*o.Share)})
	}
	rows = append(rows, []string{"step", fmt.Sprintf("%.1f", 1e6*p.Step), "100.0 %"})
	return Markdown(w, rows, "lrr")
}

// Markdown prints a table, its first row the titles; align has l or r for every column.
func Markdown(w io.Writer, rows [][]string, align string) error {
	widths := make([]int, len(align))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for i, row := range rows {
		for j, cell := range row {
			pad := strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell))
			if align[j] == 'r' {
				b.WriteString("| " + pad + cell + " ")
			} else {
				b.WriteString("| " + cell + pad + " ")
			}
		}
		b.WriteString("|\n")
		for j := 0; i == 0 && j < len(align); j++ {
			end := "- "
			if align[j] == 'r' {
				end = ": "
			}
			b.WriteString("| " + strings.Repeat("-", max(widths[j]-1, 0)) + end)
		}
		if i == 0 {
			b.WriteString("|\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
