package parquet

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

const (
	mostPage       = 256 << 20 // bytes, unpacked
	mostPageHeader = 16 << 20
)

// The kinds of pages.
const (
	dataPage       = 0
	indexPage      = 1
	dictionaryPage = 2
	dataPageV2     = 3
)

// The encodings that are read.
const (
	encodingPlain     = 0
	encodingPlainDict = 2 // the old name of encodingDict, for dictionary pages too
	encodingRLE       = 3
	encodingDict      = 8
)

var encodings = map[int]string{4: "BIT_PACKED", 5: "DELTA_BINARY_PACKED", 6: "DELTA_LENGTH_BYTE_ARRAY", 7: "DELTA_BYTE_ARRAY", 9: "BYTE_STREAM_SPLIT"}

// The codecs that are read.
const (
	codecNone   = 0
	codecSnappy = 1
	codecGzip   = 2
	codecZstd   = 6
)

var codecs = map[int]string{3: "LZO", 4: "BROTLI", 5: "LZ4", 7: "LZ4_RAW"}

// pageHeader is a PageHeader.
type pageHeader struct {
	kind             int
	unpacked, packed int
	crc              uint32
	checked          bool // crc is there
	values           int
	encoding         int
	levels           int // encoding of those, version 1
	def, rep         int // bytes of levels, version 2
	compressed       bool
}

// readHeader reads the header at the start of raw, and returns its length.
func readHeader(raw []byte) (pageHeader, int, error) {
	c := &compact{b: raw}
	h := pageHeader{kind: -1, levels: encodingRLE, compressed: true}
	c.structure(thriftStruct, func(id int, kind byte) bool {
		switch id {
		case 1:
			h.kind = c.int32(kind)
		case 2:
			h.unpacked = c.int32(kind)
		case 3:
			h.packed = c.int32(kind)
		case 4:
			h.crc, h.checked = uint32(c.int32(kind)), true
		case 5:
			c.structure(kind, h.version1(c))
		case 7:
			c.structure(kind, h.dictionary(c))
		case 8:
			c.structure(kind, h.version2(c))
		default:
			return false
		}
		return true
	})
	return h, c.at, c.err
}

// version1 reads the fields of a DataPageHeader.
func (h *pageHeader) version1(c *compact) func(id int, kind byte) bool {
	return func(id int, kind byte) bool {
		switch id {
		case 1:
			h.values = c.int32(kind)
		case 2:
			h.encoding = c.int32(kind)
		case 3, 4:
			if e := c.int32(kind); e != encodingRLE {
				h.levels = e
			}
		default:
			return false
		}
		return true
	}
}

// dictionary reads the fields of a DictionaryPageHeader.
func (h *pageHeader) dictionary(c *compact) func(id int, kind byte) bool {
	return func(id int, kind byte) bool {
		switch id {
		case 1:
			h.values = c.int32(kind)
		case 2:
			h.encoding = c.int32(kind)
		default:
			return false
		}
		return true
	}
}

// version2 reads the fields of a DataPageHeaderV2.
func (h *pageHeader) version2(c *compact) func(id int, kind byte) bool {
	return func(id int, kind byte) bool {
		switch id {
		case 1:
			h.values = c.int32(kind)
		case 4:
			h.encoding = c.int32(kind)
		case 5:
			h.def = c.int32(kind)
		case 6:
			h.rep = c.int32(kind)
		case 7:
			h.compressed = c.bool(kind)
		default:
			return false
		}
		return true
	}
}

// header reads the header of the page at c.at and goes behind it.
func (c *Column) header() (pageHeader, error) {
	end := c.chunk.start + c.chunk.size
	for size := int64(1 << 12); ; size *= 16 {
		raw := make([]byte, min(size, end-c.at))
		if err := readAt(c.file.r, raw, c.at); err != nil {
			return pageHeader{}, err
		}
		h, n, err := readHeader(raw)
		if errors.Is(err, errShort) && int64(len(raw)) < min(end-c.at, mostPageHeader) {
			continue
		}
		if err != nil {
			return h, corrupt("byte %d: header of a page: %v", c.at+int64(n), err)
		}
		at := c.at
		c.at += int64(n)
		switch {
		case h.unpacked < 0 || h.packed < 0 || h.values < 0 || h.def < 0 || h.rep < 0:
			return h, corrupt("byte %d: a page with a negative size", at)
		case int64(h.packed) > end-c.at:
			return h, corrupt("byte %d: a page of %d bytes, %d are left of the chunk", at, h.packed, end-c.at)
		case h.unpacked > mostPage:
			return h, unsupported("byte %d: a page of %d MB, over %d", at, h.unpacked>>20, mostPage>>20)
		}
		return h, nil
	}
}

// readPage reads the next page of the chunk.
func (c *Column) readPage() error {
	at := c.at
	h, err := c.header()
	if err != nil {
		return err
	}
	raw := make([]byte, h.packed)
	if err := readAt(c.file.r, raw, c.at); err != nil {
		return err
	}
	c.at += int64(h.packed)
	if h.checked && crc32.ChecksumIEEE(raw) != h.crc {
		return corrupt("byte %d: the checksum of a page is wrong", at)
	}
	switch h.kind {
	case dataPage, dataPageV2:
		if int64(h.values) > c.left {
			return corrupt("byte %d: a page of %d entries, %d are left of the chunk", at, h.values, c.left)
		}
		return c.dataPage(&h, raw, at)
	case dictionaryPage:
		return c.dictionaryPage(&h, raw, at)
	case indexPage:
		return nil
	}
	return unsupported("byte %d: a page of type %d", at, h.kind)
}

// dictionaryPage keeps the words of the chunk.
func (c *Column) dictionaryPage(h *pageHeader, raw []byte, at int64) error {
	if c.hasWords {
		return corrupt("byte %d: a second dictionary", at)
	}
	if h.encoding != encodingPlain && h.encoding != encodingPlainDict {
		return unsupported("byte %d: a dictionary with encoding %d %s", at, h.encoding, encodings[h.encoding])
	}
	b, err := decompress(c.chunk.codec, raw, h.unpacked)
	if err != nil {
		return err
	}
	if h.values > len(b)/4 {
		return corrupt("byte %d: a dictionary of %d entries in %d bytes", at, h.values, len(b))
	}
	c.hasWords = true
	c.dictionary = make([][]byte, h.values)
	for i := range c.dictionary {
		if c.dictionary[i], b, err = plainValue(b); err != nil {
			return err
		}
	}
	return nil
}

// dataPage unpacks a page and finds its streams.
func (c *Column) dataPage(h *pageHeader, raw []byte, at int64) error {
	p := page{left: h.values}
	p.rep.width, p.def.width = levelWidth(c.leaf.MaxRep), levelWidth(c.leaf.MaxDef)
	values := raw
	var err error
	if h.kind == dataPageV2 {
		if h.rep+h.def > min(len(raw), h.unpacked) {
			return corrupt("byte %d: levels of %d and %d bytes in a page of %d", at, h.rep, h.def, len(raw))
		}
		p.rep.b, p.def.b, values = raw[:h.rep], raw[h.rep:h.rep+h.def], raw[h.rep+h.def:]
		if h.compressed {
			values, err = decompress(c.chunk.codec, values, h.unpacked-h.rep-h.def)
		}
	} else {
		if h.levels != encodingRLE && c.leaf.MaxDef > 0 {
			return unsupported("byte %d: levels with encoding %d %s", at, h.levels, encodings[h.levels])
		}
		if values, err = decompress(c.chunk.codec, values, h.unpacked); err == nil && c.leaf.MaxRep > 0 {
			p.rep.b, values, err = plainValue(values)
		}
		if err == nil && c.leaf.MaxDef > 0 {
			p.def.b, values, err = plainValue(values)
		}
	}
	if err != nil {
		return err
	}
	switch h.encoding {
	case encodingPlain:
		p.plain = values
	case encodingDict, encodingPlainDict:
		if p.words = true; !c.hasWords {
			return corrupt("byte %d: numbers into a dictionary that is not there", at)
		}
		if len(values) > 0 { // a page of nulls may have none
			if p.numbers = (hybrid{b: values[1:], width: int(values[0])}); p.numbers.width > 32 {
				return corrupt("byte %d: numbers of %d bits", at, p.numbers.width)
			}
		}
	default:
		return unsupported("byte %d: values with encoding %d %s", at, h.encoding, encodings[h.encoding])
	}
	c.page = p
	return nil
}

// decompress unpacks data that has to become size bytes.
func decompress(codec int, raw []byte, size int) ([]byte, error) {
	var out []byte
	var err error
	switch codec {
	case codecNone:
		out = raw
	case codecSnappy:
		var n int
		if n, err = snappy.DecodedLen(raw); err == nil && n != size {
			return nil, corrupt("a page says %d bytes, its Snappy data %d", size, n)
		}
		// A copy of 64 bytes takes two bytes at least.
		if err == nil && size/32 > len(raw) {
			return nil, corrupt("%d bytes of Snappy data cannot be a page of %d", len(raw), size)
		}
		if err == nil {
			out, err = snappy.Decode(nil, raw)
		}
	case codecGzip:
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(raw)); err == nil {
			out, err = readUpTo(z, size)
		}
	case codecZstd:
		var z *zstd.Decoder
		if z, err = zstd.NewReader(bytes.NewReader(raw), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(mostPage)); err == nil {
			out, err = readUpTo(z, size)
			z.Close()
		}
	default:
		return nil, unsupported("codec %d %s", codec, codecs[codec])
	}
	if err != nil {
		return nil, corrupt("a page cannot be unpacked: %v", err)
	}
	if len(out) != size {
		return nil, corrupt("a page unpacks to %d bytes, want %d", len(out), size)
	}
	return out, nil
}

// readUpTo reads at most one byte more than size. Memory grows with what comes.
func readUpTo(r io.Reader, size int) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, int64(size)+1))
}
