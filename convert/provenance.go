package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"nibble/internal/kernel"
	"nibble/internal/machine"
	"nibble/internal/parallel"
)

// Execution is what of a report differs from run to run of the same settings, and from machine to machine.
type Execution struct {
	Time    string  `json:"time"`    // of its end: RFC 3339, UTC
	Seconds float64 `json:"seconds"` // since it began; a resumed run counts anew
	Source  string  `json:"source"`  // folder of the model; "" for the built-in one
	Machine string  `json:"machine"` // system, architecture, processors
	Kernel  string  `json:"kernel"`  // set of kernels
	Threads int     `json:"threads"`
}

// runBytes is the length of the line in which an execution stands, so that all else in a report has its place whatever stands there.
const runBytes = 1024

// line returns the execution as JSON with a comma behind it, filled up with spaces. Texts that are too long are cut.
func (x *Execution) line() ([]byte, error) {
	if x == nil { // as planned
		return bytes.Repeat([]byte{' '}, runBytes), nil
	}
	y := *x
	for {
		raw, err := json.Marshal(y)
		if err != nil {
			return nil, err
		}
		if n := runBytes - len(raw) - 1; n >= 0 {
			return append(append(raw, ','), bytes.Repeat([]byte{' '}, n)...), nil
		}
		long := &y.Source
		if len(y.Machine) > len(y.Source) {
			long = &y.Machine
		}
		*long = strings.ToValidUTF8((*long)[:len(*long)*3/4], "")
	}
}

// execution describes this run.
func (r *Run) execution() *Execution {
	set, _ := kernel.Active()
	path := r.Source.Path
	if abs, err := filepath.Abs(path); err == nil && path != "" {
		path = abs
	}
	return &Execution{Time: time.Now().UTC().Format("2006-01-02T15:04:05Z"), Seconds: float64(time.Since(r.began).Milliseconds()) / 1e3,
		Source: path, Machine: fmt.Sprintf("%s/%s, %s, %d processors", runtime.GOOS, runtime.GOARCH, machine.CPU(), runtime.NumCPU()),
		Kernel: set, Threads: r.Threads}
}

// noDigest has the length of a file's SHA-256 in hexadecimal digits, and stands for one that is not known yet.
var noDigest = strings.Repeat("0", 64)

// outputs lists the files of a build but its report; what they hold is not known yet.
func outputs(files []File) []SourceFile {
	list := []SourceFile{}
	for _, f := range files {
		if f.Name != ReportName && !strings.HasSuffix(f.Name, reportSuffix) {
			list = append(list, SourceFile{f.Name, f.Size, noDigest})
		}
	}
	return list
}

// prove fills in what the files of the finished folder are, and the run.
func (r *Run) prove(ctx context.Context, report *Report) error {
	report.Run = r.execution()
	return parallel.Each(ctx, len(report.Outputs), r.Threads, func(i int) (err error) {
		f := &report.Outputs[i]
		f.SHA256, err = hashFile(os.DirFS(r.dir.Path()), f.Name)
		return err
	})
}
