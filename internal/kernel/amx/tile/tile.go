// Package tile is Intel's AMX-TILE, AMX-INT8 and AMX-BF16 in plain Go: the state of a thread, what the instructions do to it, and
// how they are encoded. It follows the pseudocode of the instruction set reference and is strict: whatever a processor
// answers with an exception is an error, and so is reading a tile beyond what its configuration says.
//
// A tile has up to 16 rows of up to 64 bytes. A configuration is 64 bytes: palette 1, start row 0, fourteen zeros, the
// bytes of a row of each of eight tiles (16 bits each, then sixteen zeros), and their rows (8 bits each, then eight zeros).
// A dot product multiplies A, of M rows of K bytes, by B, of K/4 rows of N·4 bytes of which four in a row are four
// consecutive k of one column, and adds M rows of N sums of 32 bits to C. Of bfloat16 the four bytes are two k.
package tile

import (
	"encoding/binary"
	"fmt"
)

// The limits of palette 1.
const (
	Tiles    = 8
	MostRows = 16
	RowBytes = 64
)

// Config is the shape of every tile; a tile without rows is not there.
type Config struct {
	Rows [Tiles]int
	Cols [Tiles]int // bytes
}

// ParseConfig reads what LDTILECFG reads. Palette 0 gives no tiles.
func ParseConfig(b *[64]byte) (c Config, err error) {
	if b[0] == 0 {
		return c, nil
	}
	if b[0] != 1 || b[1] != 0 {
		return c, fmt.Errorf("palette %d, start row %d: want 1 and 0", b[0], b[1])
	}
	for i, v := range b {
		reserved := i >= 2 && i < 16 || i >= 32 && i < 48 || i >= 56
		if reserved && v != 0 {
			return c, fmt.Errorf("byte %d of the configuration is %d, reserved", i, v)
		}
	}
	for t := range Tiles {
		c.Cols[t], c.Rows[t] = int(binary.LittleEndian.Uint16(b[16+2*t:])), int(b[48+t])
		if c.Cols[t] > RowBytes || c.Rows[t] > MostRows || (c.Cols[t] == 0) != (c.Rows[t] == 0) {
			return c, fmt.Errorf("tile %d of %d rows of %d bytes: at most 16 of 64, or none of both", t, c.Rows[t], c.Cols[t])
		}
	}
	return c, nil
}

// State is what a thread has in its tiles. Its zero value is that after TILERELEASE.
type State struct {
	configured bool
	config     Config
	data       [Tiles][MostRows][RowBytes]byte
}

// Configure is LDTILECFG: all tiles become zero.
func (s *State) Configure(b *[64]byte) error {
	c, err := ParseConfig(b)
	if err != nil {
		return err
	}
	*s = State{configured: b[0] != 0, config: c}
	return nil
}

// Release is TILERELEASE.
func (s *State) Release() { *s = State{} }

// Configured reports whether there are tiles.
func (s *State) Configured() bool { return s.configured }

// Shape returns rows and bytes of a row of a tile, or why an instruction may not name it.
func (s *State) Shape(t int) (rows, cols int, err error) {
	if !s.configured {
		return 0, 0, fmt.Errorf("tile %d: no configuration is loaded", t)
	}
	if s.config.Rows[t] == 0 {
		return 0, 0, fmt.Errorf("tile %d has no rows in this configuration", t)
	}
	if s.config.Cols[t]%4 != 0 {
		return 0, 0, fmt.Errorf("tile %d has rows of %d bytes, no multiple of 4", t, s.config.Cols[t])
	}
	return s.config.Rows[t], s.config.Cols[t], nil
}

// Zero is TILEZERO.
func (s *State) Zero(t int) error {
	_, _, err := s.Shape(t)
	s.data[t] = [MostRows][RowBytes]byte{}
	return err
}

// Row is a row of a tile as bytes of the configured length, for loads and stores.
func (s *State) Row(t, row int) []byte { return s.data[t][row][:s.config.Cols[t]] }

// fit returns rows and bytes of c, a and b, if C += A·B is a product that a processor computes.
func (s *State) fit(c, a, b int) (rows, cols [3]int, err error) {
	if c == a || c == b || a == b {
		return rows, cols, fmt.Errorf("tiles %d, %d and %d are not three", c, a, b)
	}
	for i, t := range []int{c, a, b} {
		if rows[i], cols[i], err = s.Shape(t); err != nil {
			return rows, cols, err
		}
	}
	if rows[0] != rows[1] || cols[0] != cols[2] || cols[1] != 4*rows[2] {
		err = fmt.Errorf("tiles of %dx%d += %dx%d · %dx%d bytes: shapes do not fit", rows[0], cols[0], rows[1], cols[1], rows[2], cols[2])
	}
	return rows, cols, err
}

// Dot is TDPBSSD, TDPBSUD, TDPBUSD or TDPBUUD: c += a·b, modulo 2^32.
func (s *State) Dot(c, a, b int, signedA, signedB bool) error {
	rows, cols, err := s.fit(c, a, b)
	if err != nil {
		return err
	}
	value := func(v byte, signed bool) int32 {
		if signed {
			return int32(int8(v))
		}
		return int32(v)
	}
	var left, right [RowBytes]int32
	var sums [MostRows][MostRows]int32
	for k := range rows[2] {
		for j, v := range s.data[b][k][:cols[2]] {
			right[j] = value(v, signedB)
		}
		for m := range rows[0] {
			for i := range 4 {
				left[i] = value(s.data[a][m][4*k+i], signedA)
			}
			x0, x1, x2, x3, to := left[0], left[1], left[2], left[3], &sums[m]
			for n := range cols[0] / 4 {
				w := (*[4]int32)(right[4*n:])
				to[n] += x0*w[0] + x1*w[1] + x2*w[2] + x3*w[3]
			}
		}
	}
	for m := range rows[0] {
		for n := range cols[0] / 4 {
			at := s.data[c][m][4*n:]
			binary.LittleEndian.PutUint32(at, binary.LittleEndian.Uint32(at)+uint32(sums[m][n]))
		}
	}
	return nil
}
