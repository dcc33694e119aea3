module nibble/internal/kernel/amx

go 1.26.0
