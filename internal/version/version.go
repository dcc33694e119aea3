// Package version names the program's version.
package version

import "runtime/debug"

// number is the version of the source tree; a released binary says the same through its module version.
const number = "0.1.0"

// String returns the version, with the commit where the binary knows it: "0.1.0 (1a2b3c4d5e6f)".
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return number
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return number + " (" + s.Value[:12] + ")"
		}
	}
	return number
}

// Number returns the bare version, as quantization configs record it.
func Number() string { return number }
