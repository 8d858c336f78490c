#!/usr/bin/env python3
"""Make the small images of fuzz/seeds/image: one picture in every format, for the fuzzer and tests/cc/image_test.cc.

    build/venv/bin/python tools/make_image_seeds.py [FOLDER]

Every file holds the same picture of 8 by 6 pixels: red grows by 30 per column, green by 40 per row, blue by 15 with both.
"""
import pathlib
import struct
import sys

from PIL import Image

WIDTH, HEIGHT = 8, 6


def color(x, y):
    return 30 * x, 40 * y, 15 * (x + y)


def picture():
    image = Image.new("RGB", (WIDTH, HEIGHT))
    for y in range(HEIGHT):
        for x in range(WIDTH):
            image.putpixel((x, y), color(x, y))
    return image


def rle_bmp(image):
    """Literal stretches and one run per row, 8 bits per pixel."""
    indexed = image.quantize(WIDTH * HEIGHT)
    colors = indexed.getpalette()
    count = len(colors) // 3
    palette = b"".join(bytes((*colors[3 * i : 3 * i + 3][::-1], 0)) for i in range(count))
    data = b""
    for y in reversed(range(HEIGHT)):
        row = bytes(indexed.getpixel((x, y)) for x in range(WIDTH))
        data += bytes((0, WIDTH - 2)) + row[: WIDTH - 2] + bytes((1, row[-2], 1, row[-1], 0, 0))
    data += bytes((0, 1))
    start = 14 + 40 + len(palette)
    header = struct.pack("<IiiHHIIiiII", 40, WIDTH, HEIGHT, 1, 8, 1, len(data), 0, 0, count, 0)
    return b"BM" + struct.pack("<IHHI", start + len(data), 0, 0, start) + header + palette + data


def text_pnm(image):
    values = " ".join(str(v) for y in range(HEIGHT) for x in range(WIDTH) for v in image.getpixel((x, y)))
    return f"P3\n# text\n{WIDTH} {HEIGHT}\n255\n{values}\n".encode()


def main():
    folder = pathlib.Path(__file__).resolve().parent.parent / "fuzz" / "seeds" / "image"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else folder
    folder.mkdir(parents=True, exist_ok=True)
    image = picture()
    image.save(folder / "plain.bmp")
    (folder / "rle.bmp").write_bytes(rle_bmp(image))
    image.save(folder / "lossy.jpg", quality=100)
    image.save(folder / "lossy_progressive.jpg", quality=100, progressive=True)
    image.convert("CMYK").save(folder / "lossy_cmyk.jpg", quality=100)
    image.save(folder / "plain.jp2")
    image.save(folder / "plain.j2k", no_jp2=True)
    image.save(folder / "plain.png")
    image.quantize(WIDTH * HEIGHT).save(folder / "palette.png")
    image.save(folder / "plain.ppm")
    (folder / "text.ppm").write_bytes(text_pnm(image))
    image.save(folder / "plain.tif", compression="tiff_lzw")
    image.save(folder / "lossy.tif", compression="jpeg", quality=100)
    image.save(folder / "plain_raw.tif", compression="raw")
    image.save(folder / "plain.webp", lossless=True)
    image.save(folder / "lossy.webp", quality=100)
    image.save(folder / "moving.webp", lossless=True, save_all=True, append_images=[image.rotate(180)])


if __name__ == "__main__":
    main()
