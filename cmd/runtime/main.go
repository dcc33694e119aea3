// Command runtime looks into checkpoints and builds.
package main

import "nibble/internal/cli"

func main() { cli.Main(cli.NewRuntimeCommand()) }
