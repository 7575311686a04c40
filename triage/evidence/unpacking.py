"""What a host packed before it sent it."""

from __future__ import annotations

import io
import zlib

ZSTD, GZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
_WINDOW = 1 << 23  # bytes that a stream may look back; the fast levels of zstd use less


def unpack(data: bytes, limit: int) -> bytes:
    """The first `limit` bytes of one or more zstd or gzip streams in a row; other bytes as they are.

    A stream that is cut short or damaged gives what stands before that.
    """
    if data.startswith(ZSTD):
        return _zstd(data, limit)
    return _gzip(data, limit) if data.startswith(GZIP) else data[:limit]


def _zstd(data: bytes, limit: int) -> bytes:
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    unpacked = bytearray()
    with decompressor.stream_reader(io.BytesIO(data), read_across_frames=True) as stream:
        while len(unpacked) < limit:
            try:
                chunk = stream.read(min(1 << 20, limit - len(unpacked)))
            except zstandard.ZstdError:
                break
            if not chunk:
                break
            unpacked += chunk
    return bytes(unpacked)


def _gzip(data: bytes, limit: int) -> bytes:
    unpacked = bytearray()
    while data.startswith(GZIP) and len(unpacked) < limit:
        stream = zlib.decompressobj(wbits=31)
        try:
            while data and not stream.eof and len(unpacked) < limit:
                unpacked += stream.decompress(data, min(1 << 20, limit - len(unpacked)))
                data = stream.unconsumed_tail
        except zlib.error:
            break
        data = stream.unused_data
    return bytes(unpacked)
