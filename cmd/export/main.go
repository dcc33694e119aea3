// Command export writes a model as graphs for other processors.
package main

import "nibble/internal/cli"

func main() { cli.Main(cli.NewExportCommand()) }
