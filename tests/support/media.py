"""Pictures, clips and tones that differ in what they show, the same on every machine."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

RATE = 16000
"""Samples a second of `tone`."""
_FPS = 2


def _pixels(number: int, width: int, height: int) -> NDArray[np.uint8]:
    """Waves whose colour, direction and length depend on `number`; (height, width, 3)."""
    import numpy as np

    y, x = np.mgrid[0:height, 0:width]
    wave = [np.sin((number + 1) * (x * (band + 1) + y * number) / 40) for band in range(3)]
    light = [np.sin(5 * number + band) for band in range(3)]
    shown = [127 + 60 * a + 60 * b for a, b in zip(wave, light, strict=True)]
    return np.stack(shown, axis=-1).astype(np.uint8)


def picture(number: int, width: int = 224, height: int = 224) -> Image.Image:
    """Sizes are in pixels."""
    from PIL import Image

    return Image.fromarray(_pixels(number, width, height))


def clip(number: int, frames: int = 4, width: int = 128, height: int = 96) -> Any:  # noqa: ANN401
    """Frames of shape (frames, height, width, 3), and what a decoder says of them."""
    import numpy as np

    shown = np.stack([_pixels(number + i, width, height) for i in range(frames)])
    return shown, metadata(frames)


def metadata(frames: int) -> dict[str, Any]:
    """What a decoder says of so many frames at 2 a second."""
    return {
        "fps": float(_FPS),
        "duration": frames / _FPS,
        "total_num_frames": frames,
        "frames_indices": list(range(frames)),
        "video_backend": "opencv",
        "do_sample_frames": False,
    }


def tone(number: int, seconds: float = 1) -> tuple[NDArray[np.float32], int]:
    """A tone and its sampling rate."""
    import numpy as np

    time = np.arange(int(seconds * RATE)) / RATE
    return np.sin(2 * np.pi * 150 * number * time).astype(np.float32), RATE


def png(number: int, width: int = 224, height: int = 224) -> bytes:
    file = io.BytesIO()
    picture(number, width, height).save(file, "PNG")
    return file.getvalue()


def mp4(
    number: int, frames: int = 8, width: int = 128, height: int = 96, *, sound: bool = False
) -> bytes:
    import av

    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=_FPS)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        heard = container.add_stream("aac", rate=RATE) if sound else None
        for frame in clip(number, frames, width, height)[0]:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame)))
        container.mux(stream.encode())
        if heard is not None:
            samples = tone(number, frames / _FPS)[0].reshape(1, -1)
            wave = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
            wave.sample_rate = RATE
            container.mux(heard.encode(wave))
            container.mux(heard.encode())
    return file.getvalue()


def wav(number: int, seconds: float = 1) -> bytes:
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, *tone(number, seconds), format="WAV")
    return file.getvalue()


def data_url(kind: str, data: bytes) -> str:
    """`kind` is a media type such as `image/png`."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
