"""Packs this package and its dependencies, with compiled modules, into one archive for executors.

Executors of a cluster run on other machines, which may have nothing but Spark. Rule: the archive's name is a
hash of its content, so that it is built and sent once.
"""

from __future__ import annotations

import hashlib
import importlib.util
import zipfile
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("ottla", "pyspark_ottla", "cramjam", "fastcrc", "isal")
_SKIP = ("__pycache__", "testing")
_NAMES_NOT = (".c", ".pyc", ".pxd")


def archive(directory: Path) -> Path:
    """Return the archive in this directory; build it if it is missing."""
    files = sorted(_files())
    digest = hashlib.sha256()
    for name, path in files:
        stat = path.stat()
        digest.update(f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode())
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / f"ottla-{digest.hexdigest()[:16]}.zip"
    if not target.exists():
        new = target.with_suffix(".new")
        with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, path in files:
                zipped.write(path, name)
        new.replace(target)
    return target


def _files() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations or []) if spec is not None else []:
            base = Path(root)
            for path in base.rglob("*"):
                relative = path.relative_to(base)
                if path.is_file() and path.suffix not in _NAMES_NOT and not set(relative.parts) & set(_SKIP):
                    yield f"{package}/{relative}", path


def settings(packed: Path) -> dict[str, str]:
    """The Spark settings that make executors unpack the archive and import from it."""
    return {"spark.archives": f"{packed}#ottla_packages", "spark.executorEnv.PYTHONPATH": "./ottla_packages"}
