// Command dequantize expands a quantized build to a plain checkpoint.
package main

import "nibble/internal/cli"

func main() { cli.Main(cli.NewDequantizeCommand()) }
