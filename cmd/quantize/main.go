// Command quantize turns a bf16 checkpoint into a quantized build.
package main

import "nibble/internal/cli"

func main() { cli.Main(cli.NewQuantizeCommand()) }
