// Command release makes what goes beside the binaries of a release: the licences of other people's code in them, a bill of materials
// and a container image. The same sources and binaries give the same bytes.
//
//	release licences                  THIRD_PARTY_LICENSES, on standard output
//	release sbom TIME BINARY…         SPDX 2.3 JSON of what the binaries say they are made of, on standard output
//	release image TIME FILE PLATFORM=FOLDER…
//	                                  an OCI image in a tar file, for the binaries of a folder per platform (linux/amd64=dist/x)
//
// TIME is in seconds since 1970: that of the commit.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 1 && args[0] == "licences" {
		var b bytes.Buffer
		list, err := modules(targets)
		if err == nil {
			err = licences(&b, list)
		}
		if err == nil {
			_, err = os.Stdout.Write(b.Bytes())
		}
		return err
	}
	if len(args) < 3 {
		return errors.New("want licences, sbom TIME BINARY… or image TIME FILE PLATFORM=FOLDER…")
	}
	seconds, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return fmt.Errorf("time %q: %w", args[1], err)
	}
	at := time.Unix(seconds, 0).UTC()
	switch args[0] {
	case "sbom":
		list, err := modules(targets)
		if err != nil {
			return err
		}
		var binaries []binary
		for _, path := range args[2:] {
			b, err := readBinary(path)
			if err != nil {
				return err
			}
			binaries = append(binaries, b)
		}
		return sbom(os.Stdout, at, binaries, list)
	case "image":
		platforms := map[string]string{}
		for _, arg := range args[3:] {
			name, folder, ok := strings.Cut(arg, "=")
			if !ok || strings.Count(name, "/") != 1 {
				return fmt.Errorf("%q: want os/architecture=folder", arg)
			}
			platforms[name] = folder
		}
		var b bytes.Buffer
		if err := image(&b, at, platforms); err != nil {
			return err
		}
		return os.WriteFile(args[2], b.Bytes(), 0o666)
	}
	return fmt.Errorf("unknown command %q", args[0])
}
