"""docs/configuration.md matches the definitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.config import ResourceType, definitions, generate


def test_the_document_names_every_setting() -> None:
    text = generate.document()
    for kind in (ResourceType.BROKER, ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        for name in definitions(kind):
            assert f"| `{name}` |" in text


def test_check_fails_until_the_document_is_generated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert generate.main(["--check"]) == 1
    assert "run python -m ottla.config.generate" in capsys.readouterr().err
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    path = tmp_path / "docs" / "configuration.md"
    path.write_text(path.read_text() + "edited by hand\n")
    assert generate.main(["--check"]) == 1
