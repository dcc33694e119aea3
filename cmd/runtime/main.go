// Command runtime runs and measures models and builds.
package main

import "nibble/internal/cli"

func main() { cli.Main(cli.NewRuntimeCommand()) }
