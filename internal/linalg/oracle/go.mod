module nibble/internal/linalg/oracle

go 1.26.0

require (
	gonum.org/v1/gonum v0.17.0
	nibble v0.0.0
)

require (
	github.com/x448/float16 v0.8.4 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace nibble => ../../..
