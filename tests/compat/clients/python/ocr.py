"""rapidocr-onnxruntime reads a drawn page: three nets, text and boxes."""
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rapidocr_onnxruntime import RapidOCR

from checks import Checks

LINES = ("Tessera runs ONNX models", "the quick brown fox", "jumps over 13 lazy dogs", "Order 66-1234, 99.50 EUR")


def page():
    image = Image.new("RGB", (720, 420), "white")
    for i, line in enumerate(LINES):
        ImageDraw.Draw(image).text((30, 30 + 90 * i), line, "black", font=ImageFont.load_default(36))
    return np.asarray(image)


def read(checks, engine):
    result, _ = engine(page())
    checks.answer("texts", [text for _, text, _ in result])
    checks.answer("boxes", [box for box, _, _ in result], 1.5 / 720)
    checks.answer("scores", [float(score) for _, _, score in result], 1e-2)


def line_by_line(checks, engine):
    for i in range(len(LINES)):
        result, _ = engine(page()[20 + 90 * i : 100 + 90 * i], use_det=False)
        checks.answer(f"line {i}", [text for text, *_ in result])


checks = Checks()
engine = RapidOCR()
checks.check("a page", lambda: read(checks, engine))
checks.check("lines without detection", lambda: line_by_line(checks, engine))
checks.check("the page again", lambda: read(checks, engine))
checks.end()
