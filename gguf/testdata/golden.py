"""Writes the .gguf files of this folder with the gguf package for Python (README.md has the versions)."""
import numpy as np
from gguf import GGMLQuantizationType as T, GGUFEndian, GGUFValueType as V, GGUFWriter


def write(path, endian, **split):
    w = GGUFWriter(path, "test", endianess=endian, **split)
    w.add_uint8("k.uint8", 200)
    w.add_int8("k.int8", -100)
    w.add_uint16("k.uint16", 60000)
    w.add_int16("k.int16", -30000)
    w.add_uint32("k.uint32", 4000000000)
    w.add_int32("k.int32", -2000000000)
    w.add_uint64("k.uint64", 2**63 + 1)
    w.add_int64("k.int64", -(2**62))
    w.add_float32("k.float32", 0.15625)
    w.add_float64("k.float64", -1e300)
    w.add_bool("k.bool", True)
    w.add_string("k.string", "h\u00e9llo")
    for sub, values in [(V.UINT16, [1, 65535]), (V.INT64, [-1, 2**62]), (V.FLOAT32, [0.5, -2.0]), (V.BOOL, [True, False, True]),
                        (V.STRING, ["a", "", "\u4e16"])]:
        w.add_key_value("a." + sub.name.lower(), values, V.ARRAY, sub_type=sub)
    w.add_key_value("a.nested", [[1, 2], [3]], V.ARRAY, sub_type=V.ARRAY)
    rng = np.random.default_rng(5)
    q = rng.integers(0, 256, (2, 68), dtype=np.uint8)  # two rows of two blocks of Q8_0, which begin with a float16
    if endian == GGUFEndian.BIG:
        q.reshape(-1, 34)[:, :2] = q.reshape(-1, 34)[:, 1::-1]
    w.add_tensor("q8_0", q, raw_dtype=T.Q8_0)
    w.add_tensor("f32", rng.standard_normal((3, 5)).astype(np.float32))
    w.add_tensor("i32", rng.integers(-9, 9, (2, 3, 4)).astype(np.int32))
    w.add_tensor("f16", rng.standard_normal(7).astype(np.float16))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


write("little.gguf", GGUFEndian.LITTLE)
write("big.gguf", GGUFEndian.BIG)
write("split.gguf", GGUFEndian.LITTLE, split_max_tensors=2)
