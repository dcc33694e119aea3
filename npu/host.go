package npu

import (
	"math"
	"strconv"
	"strings"
)

// cache is what the host keeps of a sequence: keys and values of all positions, layer by layer, [positions][kv heads·dim].
type cache struct {
	width        int
	keys, values [][]float32
}

func newCache(m *Model) *cache {
	return &cache{m.KVHeads * m.HeadDim, make([][]float32, m.Layers), make([][]float32, m.Layers)}
}

// slot returns the earlier position that a place of the past holds when base tokens came before, or -1. A layer without a
// window has position p in place p; the past of a sliding one is a ring.
func slot(place, base, past int) int {
	if base <= past {
		if place < base {
			return place
		}
		return -1
	}
	return base - 1 - ((base-1-place)%past+past)%past
}

// append takes what a graph made for new tokens: keys [kv, 1, dim, tokens], or values [kv, 1, tokens, dim].
func (c *cache) append(v *value, x []float32) {
	isKey := strings.HasPrefix(v.Out, "past_key")
	heads, s := v.Shape[0], v.Shape[2]
	if isKey {
		s = v.Shape[3]
	}
	d := len(x) / heads / s
	rows := make([]float32, len(x))
	for h := range heads {
		for t := range s {
			for j := range d {
				from := (h*s+t)*d + j
				if isKey {
					from = (h*d+j)*s + t
				}
				rows[t*c.width+h*d+j] = x[from]
			}
		}
	}
	if isKey {
		c.keys[v.Layer] = append(c.keys[v.Layer], rows...)
	} else {
		c.values[v.Layer] = append(c.values[v.Layer], rows...)
	}
}

// fill makes an input with the past.
func (c *cache) fill(v *value, dst []float32, base int) {
	isKey := strings.HasPrefix(v.Name, "past_key")
	heads, past := v.Shape[0], v.Shape[2]
	from := c.values[v.Layer]
	if isKey {
		past, from = v.Shape[3], c.keys[v.Layer]
	}
	d := c.width / heads
	for place := range past {
		pos := slot(place, base, past)
		if pos < 0 {
			continue
		}
		for h := range heads {
			row := from[pos*c.width+h*d : pos*c.width+(h+1)*d]
			if !isKey {
				copy(dst[(h*past+place)*d:], row)
				continue
			}
			for j, x := range row {
				dst[(h*d+j)*past+place] = x
			}
		}
	}
}

// mask fills [1, 1, tokens, past+tokens] with 0 where a token sees a key, else with hidden.
func (g *graph) mask(dst []float32, base, past, window int, hidden float32) {
	total := past + g.Tokens
	for t := range g.Tokens {
		row := dst[t*total : (t+1)*total]
		for j := range row {
			pos := base + j - past
			if j < past {
				pos = slot(j, base, past)
			}
			if pos < 0 || pos > base+t || window > 0 && base+t-pos >= window {
				row[j] = hidden
			}
		}
	}
}

// angles fills cosines or sines [1, 1, tokens, pairs] of a rotary embedding. Frequencies that depend on the length are those
// of the whole context.
func (g *graph) angles(dst []float32, index, base int, sine bool) {
	freq, factor := g.Model.ropes[index].InvFreq(g.length)
	for t := range g.Tokens {
		for j, f := range freq {
			sin, cos := math.Sincos(float64(base+t) * float64(f))
			x := cos
			if sine {
				x = sin
			}
			dst[t*len(freq)+j] = float32(x) * factor
		}
	}
}

// feed makes an input for tokens from position base on.
func (g *graph) feed(v *value, ids []int32, base int, c *cache, hidden float32) ([]float32, error) {
	x := make([]float32, v.elements())
	switch {
	case v.Name == "input_embeds":
		return x, g.Model.lookUp(x, ids)
	case v.Class == cached:
		c.fill(v, x, base)
	case strings.HasPrefix(v.Name, "attention_mask"):
		window, _ := strconv.Atoi(strings.TrimPrefix(v.Name, "attention_mask_w"))
		g.mask(x, base, v.Shape[3]-g.Tokens, window, hidden)
	default:
		for i := range g.Model.ropes {
			cos, sin := g.angleNames(i)
			if v.Name == cos || v.Name == sin {
				g.angles(x, i, base, v.Name == sin)
			}
		}
	}
	return x, nil
}

// lookUp reads rows of the embedding.
func (m *Model) lookUp(dst []float32, ids []int32) error {
	p := &param{from: matrix{t: m.embed, n: m.Vocab, k: m.Hidden}, Fold: m.EmbedScale}
	for i, id := range ids {
		if err := m.rows(p, dst[i*m.Hidden:], m.Hidden, int(id), 1); err != nil {
			return err
		}
	}
	return nil
}
