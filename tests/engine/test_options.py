"""A flat setting and request that base answers get the same tokens and pixels when patched."""

from __future__ import annotations

from tests.engine.conftest import SideBySide

EXCEPTIONS = {
    "do_sample_frames at start holds as in a request, where base leaves it to the loader": (
        "qwen3_vl video, start {'num_frames': 4, 'do_sample_frames': True}, request {}",
        "qwen3_vl video, start {'fps': 1.0, 'do_sample_frames': True}, request {}",
    ),
}
"""Settings that are answered otherwise, by the reason; each is a Divergence of its patch.

The list only shrinks: one that is answered as on base fails, too.
"""


def test_what_base_answers_is_answered_the_same(side_by_side: SideBySide) -> None:
    told = side_by_side("options_probe")
    base, patched = (told[tree]["answers"] for tree in ("base", "patched"))
    answered = [words for words, answer in base.items() if isinstance(answer, list)]
    assert len(answered) > 100
    differ = {words for words in answered if patched[words] != base[words]}
    assert differ == {words for named in EXCEPTIONS.values() for words in named}
