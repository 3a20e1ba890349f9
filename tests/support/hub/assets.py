"""Images, sounds and films under the names and in the sizes of upstream's public assets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

IMAGES: Mapping[str, tuple[int, int]] = {
    "stop_sign.jpg": (1300, 876),
    "cherry_blossom.jpg": (1770, 1180),
    "hato.jpg": (1280, 720),
    "2560px-Gfp-wisconsin-madison-the-nature-boardwalk.jpg": (2560, 1672),
    "Grayscale_8bits_palette_sample_image.png": (256, 256),
    "1280px-Venn_diagram_rgb.svg.png": (1280, 1280),
    "1280px-Venn_diagram_rgb.jpg": (1280, 1280),
    "RGBA_comp.png": (480, 320),
    "237-400x300.jpg": (400, 300),
    "231-200x300.jpg": (200, 300),
    "27-500x500.jpg": (500, 500),
    "17-150x600.jpg": (150, 600),
    "handelsblatt-preview.jpg": (500, 700),
    "paper-11.png": (1275, 1650),
}
"""File → width and height in pixels."""

_MODES = {"Grayscale_8bits_palette_sample_image.png": "L", "RGBA_comp.png": "RGBA"}
_SOUNDS = {"mary_had_lamb.ogg": 9.2, "winning_call.ogg": 16.5}  # seconds
_SAMPLE_RATE = 16000
_FRAMES, _FRAME_SIZE, _FRAME_RATE = 300, (640, 360), 30


def make(folder: Path) -> None:
    """Write all assets below `folder`, as `vllm.assets` looks for them in its cache."""
    public = folder / "vllm_public_assets"
    public.mkdir(parents=True)
    for file, size in IMAGES.items():
        _image(public / file, size, _MODES.get(file, "RGB"))
    for file, seconds in _SOUNDS.items():
        _sound(public / file, seconds)
    films = folder / "video-example-data"
    films.mkdir()
    _film(films / "sample_demo_1.mp4")


def _image(path: Path, size: tuple[int, int], mode: str) -> None:
    """Gradients with a disc: smooth, but no two rows or columns alike."""
    from PIL import Image, ImageDraw

    bands = [Image.linear_gradient("L").rotate(turn).resize(size) for turn in (0, 90, 180, 270)]
    count = {"L": 1, "RGB": 3, "RGBA": 4}[mode]
    image = bands[0] if count == 1 else Image.merge(mode, bands[:count])
    width, height = size
    box = (width // 4, height // 4, 3 * width // 4, 3 * height // 4)
    ImageDraw.Draw(image).ellipse(box, fill=200 if count == 1 else (200, 40, 40, 255)[:count])
    image.save(path)


def _sound(path: Path, seconds: float) -> None:
    import soundfile

    soundfile.write(path, _tone(seconds), _SAMPLE_RATE, format="OGG", subtype="VORBIS")


def _tone(seconds: float) -> Any:  # noqa: ANN401 - numpy is of another environment
    """It slides upwards."""
    import numpy as np

    time = np.arange(int(seconds * _SAMPLE_RATE)) / _SAMPLE_RATE
    return (0.3 * np.sin(2 * math.pi * (220 + 40 * time) * time)).astype(np.float32)


def _film(path: Path) -> None:
    """A bright square that crosses the frame, with a tone."""
    import av
    import numpy as np

    width, height = _FRAME_SIZE
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=Fraction(_FRAME_RATE))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        sound = container.add_stream("aac", rate=_SAMPLE_RATE, layout="mono")
        for number in range(_FRAMES):
            picture = np.full((height, width, 3), 40, dtype=np.uint8)
            left = (width - 80) * number // _FRAMES
            picture[140:220, left : left + 80] = (250, 220, 30)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
        tone = _tone(_FRAMES / _FRAME_RATE)[None]
        heard = av.AudioFrame.from_ndarray(tone, format="fltp", layout="mono")
        heard.sample_rate = _SAMPLE_RATE
        container.mux(sound.encode(heard))
        container.mux(sound.encode())
