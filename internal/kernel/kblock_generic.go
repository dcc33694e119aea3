package kernel

import "github.com/x448/float16"

var ksetsGeneric = ksets{
	Q4K:   {one: func(p *Product) { kblocksOne(p, Q4K) }},
	Q5K:   {one: func(p *Product) { kblocksOne(p, Q5K) }},
	Q6K:   {one: func(p *Product) { kblocksOne(p, Q6K) }},
	IQ4XS: {one: func(p *Product) { kblocksOne(p, IQ4XS) }},
}

// kblocksOne is KBlocks for one token.
func kblocksOne(p *Product, kind KBlock) {
	size := kind.KBytes()
	var from KRow
	var codes [KColumns]uint8
	for panel := range int(p.Panels) {
		for row := range PanelRows {
			var y float32
			for b := range p.Blocks {
				if b%2 == 0 {
					kind.Take(&from, &codes, p.Codes[(panel*len(p.Blocks)+b)/2*size:], row)
				}
				at := b * int(p.Row)
				y += float32(kblocks[kind].block(&from, codes[b%2*WidestBlock:], b%2, Int8s(p.X[b*WidestBlock:])) * p.XScales[at])
			}
			p.Y[panel*PanelRows+row] = y
		}
	}
}

// block returns the product of half a row's record, its codes and activations, without their scale.
func (k *kblock) block(from *KRow, codes []uint8, half int, x []int8) float32 {
	var sum, least int32
	per := WidestBlock / k.group
	for g := range per {
		var dot, all int32
		for i, q := range codes[g*k.group:][:k.group] {
			v := int32(x[g*k.group+i])
			dot += (int32(q) - k.mid) * v
			all += v
		}
		sum += int32(from.Scales[half*per+g]) * dot
		least += int32(from.Mins[half*per+g]) * all
	}
	v := float32(float32(sum) * float16.Frombits(from.D).Float32())
	if k.mins {
		v -= float32(float32(least) * float16.Frombits(from.DMin).Float32())
	}
	return v
}

// Values sets dst to the weights of a row that Take returned, as the decoder of the file computes them.
func (k KBlock) Values(dst *[KColumns]float32, from *KRow, codes *[KColumns]uint8) {
	x := &kblocks[k]
	d, dmin := float16.Frombits(from.D).Float32(), float16.Frombits(from.DMin).Float32()
	for i, q := range codes {
		v := float32(float32(d*float32(from.Scales[i/x.group])) * float32(int32(q)-x.mid))
		if x.mins {
			v -= float32(dmin * float32(from.Mins[i/x.group]))
		}
		dst[i] = v
	}
}
