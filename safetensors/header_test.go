package safetensors

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tensor returns the description of a tensor "a".
func tensor(dtype, shape, offsets string) string {
	return `{"a":{"dtype":"` + dtype + `","shape":` + shape + `,"data_offsets":` + offsets + `}}`
}

// nested returns a header whose deepest value is at the given depth.
func nested(depth int) string {
	return `{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"x":` +
		strings.Repeat("[", depth-2) + strings.Repeat("]", depth-2) + `}}`
}

// The verdicts are those of the reference, safetensors 0.8.0, on the same bytes, except where a comment says otherwise.
func TestAttacks(t *testing.T) {
	ten := make([]string, 10)
	for i := range ten {
		ten[i] = fmt.Sprintf(`"tensor_%d":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}`, i)
	}
	const invalid = InvalidHeaderDeserialization
	tests := []struct {
		name   string
		file   []byte
		kind   Kind
		tensor string
		offset int64
	}{
		{"empty buffer", nil, HeaderTooSmall, "", 0},
		{"seven bytes", make([]byte, 7), HeaderTooSmall, "", 0},
		{"header too large", []byte("\x3c\x00\x00\x00\x00\xff\xff\xff"), HeaderTooLarge, "", 0},
		{"header one byte too large", []byte("\x01\xe1\xf5\x05\x00\x00\x00\x00"), HeaderTooLarge, "", 0},
		{"header beyond the buffer", []byte("\x3c\x00\x00\x00\x00\x00\x00\x00"), InvalidHeaderLength, "", 0},
		{"header one byte beyond the buffer", []byte("\x03\x00\x00\x00\x00\x00\x00\x00{}"), InvalidHeaderLength, "", 0},
		{"header not UTF-8", fileOf("\xff", 0), InvalidHeader, "", 8},
		{"name not UTF-8", fileOf("{\"\u00fc\xc3\":1}", 0), InvalidHeader, "", 12},
		{"header not JSON", fileOf("{", 0), invalid, "", 9},
		{"no header", fileOf("", 0), invalid, "", 8},
		{"array", fileOf("[]", 0), invalid, "", 8},
		{"null", fileOf("null", 0), invalid, "", 8},
		{"byte order mark", fileOf("\ufeff{}", 0), invalid, "", 8},
		{"bytes behind the object", fileOf("{}  x", 0), invalid, "", 12},
		{"zeros behind the object", fileOf("{}\x00", 0), invalid, "", 10},
		{"unknown dtype", fileOf(tensor("F128", "[1]", "[0,16]"), 16), invalid, "a", 28},
		{"lower-case dtype", fileOf(tensor("f32", "[1]", "[0,4]"), 4), invalid, "a", 27},
		{"upper-case field", fileOf(`{"a":{"DTYPE":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), invalid, "a", 60},
		{"array for a tensor", fileOf(`{"a":["U8",[1],[0,1]]}`, 1), invalid, "a", 13}, // the reference takes it
		{"no dtype", fileOf(`{"a":{"shape":[1],"data_offsets":[0,1]}}`, 1), invalid, "a", 47},
		{"no shape", fileOf(`{"a":{"dtype":"U8","data_offsets":[0,1]}}`, 1), invalid, "a", 48},
		{"no offsets", fileOf(`{"a":{"dtype":"U8","shape":[1]}}`, 1), invalid, "a", 39},
		{"null shape", fileOf(tensor("U8", "null", "[0,1]"), 1), invalid, "a", 35},
		{"negative dimension", fileOf(tensor("U8", "[-1]", "[0,1]"), 1), invalid, "a", 36},
		{"negative zero", fileOf(tensor("U8", "[-0]", "[0,0]"), 0), invalid, "a", 36},
		{"fractional dimension", fileOf(tensor("U8", "[1.0]", "[0,1]"), 1), invalid, "a", 36},
		{"dimension with exponent", fileOf(tensor("U8", "[1e0]", "[0,1]"), 1), invalid, "a", 36},
		{"leading zero", fileOf(tensor("U8", "[01]", "[0,1]"), 1), invalid, "a", 36},
		{"dimension of 65 bits", fileOf(tensor("U8", "[18446744073709551616]", "[0,0]"), 0), invalid, "a", 36},
		{"three offsets", fileOf(tensor("U8", "[1]", "[0,1,2]"), 1), invalid, "a", 59},
		{"one offset", fileOf(tensor("U8", "[1]", "[0]"), 1), invalid, "a", 57},
		{"comma before the end", fileOf(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},}`, 1), invalid, "a", 61},
		{"control character in a name", fileOf("{\"a\x01\":1}", 0), invalid, "", 11},
		{"lone surrogate", fileOf(`{"\ud800":1}`, 0), invalid, "", 16},
		{"surrogates in the wrong order", fileOf(`{"\ude00\ud83d":1}`, 0), invalid, "", 22},
		{"unknown escape", fileOf(`{"\x":1}`, 0), invalid, "", 11},
		{"surrogate pair cut short", fileOf(`{"\ud83d\u12`, 0), invalid, "", 18},
		{"control character behind an escape", fileOf("{\"\\n\x01\":1}", 0), invalid, "", 12},
		{"string without an end", fileOf(`{"a`, 0), invalid, "", 11},
		{"string without an end behind an escape", fileOf(`{"\na`, 0), invalid, "", 13},
		{"backslash at the end", fileOf(`{"\`, 0), invalid, "", 11},
		{"no colon", fileOf(`{"a" 1}`, 0), invalid, "", 13},
		{"key not a string", fileOf(`{1:1}`, 0), invalid, "", 9},
		{"dtype not a string", fileOf(`{"a":{"dtype":1}}`, 0), invalid, "a", 22},
		{"negative offset", fileOf(tensor("U8", "[1]", "[-1,0]"), 1), invalid, "a", 55},
		{"number cut short", fileOf(`{"a":{"x":1`, 0), invalid, "a", 19},
		{"escape cut short", fileOf(`{"\u12`, 0), invalid, "", 12},
		{"unknown field not JSON", fileOf(`{"a":{"x":nan}}`, 0), invalid, "a", 18},
		{"deep nesting", fileOf(nested(128), 1), invalid, "a", 188},
		{"deepest nesting there is", fileOf(`{"a":{"x":`+strings.Repeat("[", 1<<20), 0), invalid, "a", 143},
		{"metadata not strings", fileOf(`{"__metadata__":{"a":1}}`, 0), invalid, metadataKey, 29},
		{"metadata null string", fileOf(`{"__metadata__":{"a":null}}`, 0), invalid, metadataKey, 29},
		{"metadata twice", fileOf(`{"__metadata__":{},"__metadata__":{}}`, 0), invalid, metadataKey, 42},
		{"dtype twice", fileOf(`{"a":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}}`, 1), invalid, "a", 35},
		// The reference keeps the last of equal names and keys.
		{"name twice", fileOf(`{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"\u0061":1}`, 1), invalid, "a", 69},
		{"metadata key twice", fileOf(`{"__metadata__":{"k":"","k":""}}`, 0), invalid, metadataKey, 36},
		{"every tensor at offset 0", fileOf("{"+strings.Join(ten, ",")+"}", 16), InvalidOffset, "tensor_1", int64(8 + 1 + len(ten[0]) + len(`,"tensor_1":`))},
		{"end before begin", fileOf(tensor("U8", "[1]", "[1,0]"), 1), InvalidOffset, "a", 13},
		{"hole before the first tensor", fileOf(tensor("U8", "[1]", "[1,2]"), 2), InvalidOffset, "a", 13},
		{"offset of 64 bits", fileOf(tensor("U8", "[1]", "[0,18446744073709551615]"), 1), InvalidOffset, "a", 77},
		{"too few bytes for the shape", fileOf(tensor("I32", "[2,2]", "[0,4]"), 16), TensorInvalidInfo, "a", 13},
		{"bytes of a zero dimension", fileOf(tensor("I32", "[2,0]", "[0,4]"), 4), TensorInvalidInfo, "a", 13},
		{"product overflows", fileOf(tensor("I32", "[2,18446744073709551614]", "[0,16]"), 16), ValidationOverflow, "a", 59},
		{"bits overflow", fileOf(tensor("I32", "[2,9223372036854775807]", "[0,16]"), 16), ValidationOverflow, "a", 13},
		{"product overflows before a zero", fileOf(tensor("U8", "[4294967296,4294967296,0]", "[0,0]"), 0),
			ValidationOverflow, "a", 13},
		// The reference takes it: it allows 64 bits.
		{"dimension of 64 bits", fileOf(tensor("U8", "[0,18446744073709551615]", "[0,0]"), 0), ValidationOverflow, "a", 58},
		{"half a byte", fileOf(tensor("F4", "[3]", "[0,1]"), 1), MisalignedSlice, "a", 13},
		{"trailing bytes", append(example(), 0), MetadataIncompleteBuffer, "", 96},
		{"truncated data", example()[:95], MetadataIncompleteBuffer, "", 95},
		{"data without tensors", fileOf("{}", 1), MetadataIncompleteBuffer, "", 10},
		{"end far beyond the file", fileOf(tensor("U8", "[1152921504606846975]", "[0,1152921504606846975]"), 1),
			MetadataIncompleteBuffer, "", 98},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := open(test.file)
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("error %v", err)
			}
			got := err.(*FormatError)
			if got.Kind != test.kind || got.Tensor != test.tensor {
				t.Errorf("%q of %q, want %q of %q: %v", got.Kind, got.Tensor, test.kind, test.tensor, err)
			}
			if got.Offset != test.offset {
				t.Errorf("offset %d, want %d: %v", got.Offset, test.offset, err)
			}
		})
	}
}

// The verdicts are those of the reference, safetensors 0.8.0, on the same bytes.
func TestUnusualButValid(t *testing.T) {
	tests := []struct {
		name    string
		file    []byte
		tensors int
		meta    map[string]string
	}{
		{"no tensors", []byte("\x08\x00\x00\x00\x00\x00\x00\x00{}      "), 0, nil},
		{"white space around the header", fileOf("\n\t\r {} \n", 0), 0, nil},
		{"metadata null", fileOf(`{"__metadata__":null}`, 0), 0, nil},
		{"metadata empty", fileOf(`{"__metadata__":{}}`, 0), 0, map[string]string{}},
		{"metadata escaped", fileOf(`{"__metadata__":{"\"\\\/\b\f\n\r\t\u00fc\ud83d\ude00":"é"}}`, 0), 0,
			map[string]string{"\"\\/\b\f\n\r\tü😀": "é"}},
		{"unknown field", fileOf(`{"a":{"x":[{"y":-1e5},true,"\n"],"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), 1, nil},
		{"nesting to the limit", fileOf(nested(127), 1), 1, nil},
		{"name of no characters", fileOf(`{"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), 1, nil},
		{"two halves of a byte", fileOf(tensor("F4", "[2]", "[0,1]"), 1), 1, nil},
		{"four of six bits", fileOf(tensor("F6_E2M3", "[4]", "[0,3]"), 3), 1, nil},
		{"zero dimension", fileOf(tensor("F32", "[5,0]", "[0,0]"), 0), 1, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f, err := open(test.file)
			if err != nil {
				t.Fatal(err)
			}
			if len(f.Tensors()) != test.tensors {
				t.Errorf("%d tensors, want %d", len(f.Tensors()), test.tensors)
			}
			if diff := cmp.Diff(test.meta, f.Metadata()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestErrorsNameTheRule(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	if err := os.WriteFile(path, fileOf(tensor("I32", "[2,2]", "[0,4]"), 4), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path)
	want := "safetensors: " + path + `: tensor "a": byte 13: offsets do not fit the shape: [0,4] for 16 bytes of I32 [2 2]`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	// A name or a shape can be as long as a header; messages stay short.
	long := strings.Repeat("1,", 1<<20) + "3"
	_, err = open(fileOf(strings.Replace(tensor("U8", "["+long+"]", "[0,4]"), "a", long, 1), 4))
	if err == nil || len(err.Error()) > 1000 {
		t.Errorf("%.1000v", err)
	}
}
