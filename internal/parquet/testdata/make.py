# Writes the files beside it, with pyarrow 26.0.1. What they hold is stated again in parquet_test.go.
import pyarrow as pa
import pyarrow.parquet as pq

words = ["", "one", "zwei", "три", "four " * 20]
texts = [None if i % 7 == 3 else words[i % 5] for i in range(40)]
options = dict(store_schema=False, write_statistics=False)


def table(list_, nullable=True):
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string(), nullable=nullable)])
    return pa.table([list(range(len(list_))), list_], schema=schema)


full = [t or "none" for t in texts]
pq.write_table(table(texts), "plain-snappy.parquet", use_dictionary=False, compression="snappy", **options)
pq.write_table(table(texts), "dictionary-zstd-v2.parquet", use_dictionary=["text"], compression="zstd", data_page_version="2.0", row_group_size=16, **options)
pq.write_table(table(full, False), "required-gzip.parquet", use_dictionary=["text"], compression="gzip", row_group_size=25, **options)
pq.write_table(table(texts), "plain-v2-checksums.parquet", use_dictionary=False, compression="none", data_page_version="2.0", write_page_checksum=True, data_page_size=64, write_batch_size=8, **options)

turn = pa.struct([("content", pa.string()), ("role", pa.string())])
talks = [
    [{"content": "Hello?", "role": "user"}, {"content": "Good day.", "role": "assistant"}],
    [],
    None,
    [{"content": None, "role": "assistant"}],
    [{"content": "Who?", "role": "user"}, {"content": "Me.", "role": "assistant"}, {"content": "Oh.", "role": "user"}],
]
pq.write_table(pa.table({"prompt": ["a", "b", "c", "d", "e"], "messages": pa.array(talks, pa.list_(turn))}), "messages.parquet", compression="snappy", **options)

pq.write_table(table(texts), "delta.parquet", use_dictionary=False, column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY"}, **options)
pq.write_table(table(texts), "lz4.parquet", use_dictionary=False, compression="lz4", **options)
