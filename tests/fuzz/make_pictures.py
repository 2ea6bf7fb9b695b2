#!/usr/bin/env python3
"""Writes corpus/image_file: a few pixels in each form of PNG and JPEG.

Small, so that a fuzzer's executions go into the forms and not into pixels.
Not in the package lists: PIL (Pillow)
"""
import pathlib
import struct
import zlib

from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent / "corpus" / "image_file"
WIDTH, HEIGHT = 11, 9


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(name: str, colour: int, depth: int, interlaced: bool, extra: bytes = b"") -> None:
    """Pixels are counted up; the lines' filters go in turn through all five."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    grids = [(0, 0, 1, 1)]
    if interlaced:
        grids = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
                 (0, 1, 1, 2)]
    raw, line = b"", 0
    for x0, y0, dx, dy in grids:
        wide, high = len(range(x0, WIDTH, dx)), len(range(y0, HEIGHT, dy))
        for _ in range(high if wide else 0):
            bits = wide * channels * depth
            raw += bytes([line % 5]) + bytes(7 * (line + i) % 256 for i in range((bits + 7) // 8))
            line += 1
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, colour, 0, 0, int(interlaced))
    (HERE / f"{name}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra
                                       + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def jpeg(name: str, mode: str, **how: object) -> None:
    picture = Image.new("RGB", (19, 18))
    picture.putdata([(13 * i % 256, 7 * i % 256, 3 * i % 256) for i in range(19 * 18)])
    picture.convert(mode).save(HERE / f"{name}.jpg", quality=30, **how)


HERE.mkdir(parents=True, exist_ok=True)
palette = chunk(b"PLTE", bytes(range(48)))
png("rgb", 2, 8, False)
png("rgb16", 2, 16, False)
png("rgba", 6, 8, False)
png("rgba_interlaced", 6, 8, True)
png("grey", 0, 8, False)
png("grey1", 0, 1, False)
png("grey2_interlaced", 0, 2, True)
png("grey_alpha16", 4, 16, False)
png("palette4", 3, 4, False, palette)
png("palette8_clear", 3, 8, True, palette + chunk(b"tRNS", bytes(16)))
png("rgb_clear", 2, 8, False, chunk(b"tRNS", bytes(6)))
jpeg("plain", "RGB", subsampling=0)
jpeg("subsampled", "RGB", subsampling=2)
jpeg("progressive", "RGB", progressive=True)
jpeg("grey", "L")
jpeg("cmyk", "CMYK")
jpeg("restarts", "RGB", restart_marker_blocks=1)
