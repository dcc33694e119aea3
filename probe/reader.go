package probe

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"nibble/internal/machine"
)

// maxFile is the most that is read of a file: /proc/cpuinfo of 1024 processors is below 2 MB.
const maxFile = 8 << 20

// reader reads the files of a machine. What is missing is unknown.
type reader struct {
	fsys fs.FS
	p    *Profile
}

// raw returns the content of a regular file, nil if there is none or it is too long.
func (r *reader) raw(name string) []byte {
	if !fs.ValidPath(name) {
		return nil
	}
	info, err := fs.Stat(r.fsys, name)
	if err != nil || !info.Mode().IsRegular() { // a pipe would wait for its writer
		return nil
	}
	f, err := r.fsys.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil || len(raw) > maxFile {
		return nil
	}
	return raw
}

// text returns a file of one line as a name.
func (r *reader) text(name string) string { return clean(string(r.raw(name))) }

// exists reports whether there is a file of any kind.
func (r *reader) exists(name string) bool {
	if !fs.ValidPath(name) {
		return false
	}
	_, err := fs.Stat(r.fsys, name)
	return err == nil
}

// list returns the names in a folder that begin with a prefix, numbers in their order, not more than a profile may have.
func (r *reader) list(dir, prefix string) []string {
	entries, err := fs.ReadDir(r.fsys, dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, prefix) && clean(name) == name {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		x, xerr := strconv.Atoi(a[len(prefix):])
		y, yerr := strconv.Atoi(b[len(prefix):])
		if xerr == nil && yerr == nil && x != y {
			return x - y
		}
		return strings.Compare(a, b)
	})
	return names[:min(len(names), maxCPUs)]
}

// found notes where a thing was found.
func (r *reader) found(what, where string) { r.p.Sources[what] = "/" + where }

// unknown notes what could not be found.
func (r *reader) unknown(what, where string) {
	r.p.Unknown = append(r.p.Unknown, fmt.Sprintf("%s: nothing usable in %s", what, where))
}

// number reads a number of a file, at most limit.
func (r *reader) number(name string, limit int64) (n int64, ok bool) {
	return parseNumber(r.text(name), limit)
}

// parseNumber reads a number from 0 to limit.
func parseNumber(s string, limit int64) (n int64, ok bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	return n, err == nil && n >= 0 && n <= limit
}

// clean makes a name of bytes that may be anything: one line, printable, not long.
func clean(s string) string {
	if len(s) > 4*maxText {
		s = s[:4*maxText]
	}
	s = strings.Map(func(c rune) rune {
		switch {
		case c == unicode.ReplacementChar:
			return -1
		case unicode.IsPrint(c):
			return c
		}
		return ' '
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	return s
}

// fields reads lines "key<separator>value", the first value of every key.
func fields(raw []byte, separator string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		key, value, ok := strings.Cut(line, separator)
		if key = clean(key); ok && m[key] == "" && len(m) < maxList {
			m[key] = clean(value)
		}
	}
	return m
}

// parseCPUs reads a list of processors like 0-3,8.
func parseCPUs(s string) (list []int, ok bool) {
	list, err := machine.ParseCPUs(strings.TrimSpace(s))
	slices.Sort(list)
	return slices.Compact(list), err == nil
}

// formatCPUs writes a sorted list as parseCPUs reads it.
func formatCPUs(list []int) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, list[i])
		if j > i {
			fmt.Fprintf(&b, "-%d", list[j])
		}
		i = j + 1
	}
	return b.String()
}

// parseKB reads a value of /proc/meminfo, "1234 kB", in bytes.
func parseKB(s string) (bytes int64, ok bool) {
	number, ok := strings.CutSuffix(strings.TrimSpace(s), " kB")
	n, valid := parseNumber(number, maxMemory>>10)
	return n << 10, ok && valid
}

// compatible returns the strings of the device tree's root that say what the machine is.
func (r *reader) compatible() []string {
	raw := r.raw(path.Join(deviceTree, "compatible"))
	if raw == nil {
		raw = r.raw("proc/device-tree/compatible")
	}
	var list []string
	for s := range strings.SplitSeq(string(raw), "\x00") {
		if s = clean(s); s != "" && len(list) < maxList {
			list = append(list, s)
		}
	}
	return list
}

// deviceTree is where the device tree is; /proc/device-tree is a link to it.
const deviceTree = "sys/firmware/devicetree/base"
