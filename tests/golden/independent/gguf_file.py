"""A minimal writer of GGUF version 3 files: metadata, then tensors, all aligned to 32 bytes."""

import struct

import numpy as np

ALIGNMENT = 32
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TENSOR_TYPES = {np.dtype(np.float32): 0, np.dtype(np.float16): 1}


def text(value):
    data = value.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def typed(value):
    """The type number of a value and its bytes. Whole numbers in lists are signed, as token types are."""
    if isinstance(value, bool):
        return BOOL, struct.pack("<?", value)
    if isinstance(value, int):
        return U32, struct.pack("<I", value)
    if isinstance(value, float):
        return F32, struct.pack("<f", value)
    if isinstance(value, str):
        return STRING, text(value)
    if isinstance(value[0], str):
        items = STRING, b"".join(text(item) for item in value)
    else:
        items = I32, struct.pack(f"<{len(value)}i", *value)
    return ARRAY, struct.pack("<IQ", items[0], len(value)) + items[1]


def padding(length):
    return b"\0" * (-length % ALIGNMENT)


def write(path, metadata, tensors):
    """Writes a file. Dimensions are stored innermost first, so numpy's shapes are turned around."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        kind, data = typed(value)
        head += text(key) + struct.pack("<I", kind) + data
    body = b""
    for name, tensor in tensors.items():
        dims = tensor.shape[::-1]
        head += text(name) + struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
        head += struct.pack("<IQ", TENSOR_TYPES[tensor.dtype], len(body))
        data = np.ascontiguousarray(tensor).tobytes()
        body += data + padding(len(data))
    with open(path, "wb") as file:
        file.write(head + padding(len(head)) + body)
