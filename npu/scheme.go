package npu

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Scheme says in how many bits what is kept.
type Scheme struct {
	Name   string
	Act    int // activations: 8, 16
	Weight int // matrices: 4, 8, 16
	Head   int // the head's: 8, 16
	KV     DType
	Raised map[string]int // matrices, by name, and caches (kv.N) that have more bits than the others
}

// The schemes.
var schemes = map[string]Scheme{
	"w8a16":  {Act: 16, Weight: 8, Head: 8},
	"w8a8":   {Act: 8, Weight: 8, Head: 8},
	"w4a16":  {Act: 16, Weight: 4, Head: 8},
	"w16a16": {Act: 16, Weight: 16, Head: 16},
}

// Schemes lists the names that NewScheme knows.
func Schemes() []string { return slices.Sorted(maps.Keys(schemes)) }

// caches maps the names of the command line to types of keys and values.
var caches = map[string]DType{"uint8": Uint8, "int16": Int16}

// NewScheme returns a scheme by its name, with a type for keys and values.
func NewScheme(name, kv string) (Scheme, error) {
	s, ok := schemes[name]
	if !ok {
		return s, fmt.Errorf("scheme %q: want %s", name, strings.Join(Schemes(), ", "))
	}
	s.Name, s.Raised = name, map[string]int{}
	if s.KV, ok = caches[kv]; !ok {
		return s, fmt.Errorf("keys and values in %q: want %s", kv, strings.Join(slices.Sorted(maps.Keys(caches)), ", "))
	}
	return s, nil
}

// act is the type of activations.
func (s *Scheme) act() DType {
	if s.Act == 8 {
		return Uint8
	}
	return Uint16
}

// bits is how many a matrix has.
func (s *Scheme) bits(p *param) int { return max(s.unraised(p), s.Raised[p.Name]) }

// unraised is how many it has if it was not raised.
func (s *Scheme) unraised(p *param) int {
	if p.Output {
		return s.Head
	}
	return s.Weight
}

// kv is the type of a layer's keys and values.
func (s *Scheme) kv(layer int) DType {
	if s.Raised[cacheName(layer)] == 16 {
		return Int16
	}
	return s.KV
}

func cacheName(layer int) string { return fmt.Sprintf("kv.%d", layer) }
