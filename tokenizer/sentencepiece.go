package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Types of pieces.
const (
	pieceNormal = iota + 1
	pieceUnknown
	pieceControl
	pieceUser
	pieceUnused
	pieceByte
)

// Model types of the trainer.
const (
	modelUnigram = iota + 1
	modelBPE
)

const spaceMark = "\u2581" // what SentencePiece writes for a space

// spPiece is an entry of the vocabulary; its place is its id.
type spPiece struct {
	text  string
	score float32
	kind  int
}

// spModel is what a tokenizer.model says, with the defaults of its message.
type spModel struct {
	pieces []spPiece

	kind         int
	byteFallback bool
	spaceBehind  bool // treat_whitespace_as_suffix
	unkSurface   string
	bos, eos     string

	charsMap     []byte
	dummyPrefix  bool
	removeExtra  bool
	escape       bool
	denormalizer []byte
}

// parseSentencePiece reads the fields of a ModelProto that matter.
func parseSentencePiece(raw []byte) (*spModel, error) {
	if len(raw) > maxFile {
		return nil, fmt.Errorf("over %d MB", maxFile>>20)
	}
	m := &spModel{kind: modelUnigram, unkSurface: " \u2047 ", bos: "<s>", eos: "</s>",
		dummyPrefix: true, removeExtra: true, escape: true}
	err := fields(raw, func(num protowire.Number, _ uint64, value []byte) error {
		switch num {
		case 1:
			return m.piece(value)
		case 2:
			return fields(value, m.trainer)
		case 3:
			return fields(value, m.normalizer)
		case 5:
			return fields(value, func(num protowire.Number, _ uint64, value []byte) error {
				if num == 2 {
					m.denormalizer = value
				}
				return nil
			})
		}
		return nil
	})
	return m, err
}

func (m *spModel) piece(raw []byte) error {
	if len(m.pieces) == maxID {
		return fmt.Errorf("more than %d pieces", maxID)
	}
	p := spPiece{kind: pieceNormal}
	err := fields(raw, func(num protowire.Number, number uint64, value []byte) error {
		switch num {
		case 1:
			p.text = string(value)
		case 2:
			p.score = math.Float32frombits(uint32(number))
		case 3:
			p.kind = int(number)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if p.text == "" || !utf8.ValidString(p.text) || p.score != p.score || p.kind < pieceNormal || p.kind > pieceByte {
		return fmt.Errorf("piece %d: text %q, score %v, type %d", len(m.pieces), clip(p.text), p.score, p.kind)
	}
	m.pieces = append(m.pieces, p)
	return nil
}

func (m *spModel) trainer(num protowire.Number, number uint64, value []byte) error {
	switch num {
	case 3:
		m.kind = int(number)
	case 24:
		m.spaceBehind = number != 0
	case 35:
		m.byteFallback = number != 0
	case 44:
		m.unkSurface = string(value)
	case 46:
		m.bos = string(value)
	case 47:
		m.eos = string(value)
	}
	return nil
}

func (m *spModel) normalizer(num protowire.Number, number uint64, value []byte) error {
	switch num {
	case 2:
		m.charsMap = value
	case 3:
		m.dummyPrefix = number != 0
	case 4:
		m.removeExtra = number != 0
	case 5:
		m.escape = number != 0
	}
	return nil
}

// fields calls visit for every field of a message, with its number or its bytes.
func fields(raw []byte, visit func(num protowire.Number, number uint64, value []byte) error) error {
	for len(raw) > 0 {
		num, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return protowire.ParseError(n)
		}
		raw = raw[n:]
		var number uint64
		var value []byte
		switch kind {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(raw)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(raw)
			number = uint64(v)
		case protowire.Fixed64Type:
			number, n = protowire.ConsumeFixed64(raw)
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(raw)
		default:
			return errors.New("a group, which the format does not have")
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		raw = raw[n:]
		if err := visit(num, number, value); err != nil {
			return err
		}
	}
	return nil
}
