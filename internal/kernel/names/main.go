// Command names prints the sets of kernels that this machine has, for scripts that run something under each.
package main

import (
	"os"
	"strings"

	"nibble/internal/kernel"
)

func main() { os.Stdout.WriteString(strings.Join(kernel.Names(), "\n") + "\n") }
